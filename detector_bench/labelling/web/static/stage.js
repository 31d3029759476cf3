// Where the pictures are: they are painted, zoomed and moved here. Two pictures of a pair move together.

import { element, t } from "./shared.js";

const CLOSE_UP = 2.5;
const LARGEST = 8;
const STEP = 1.4;
const ROLES = { seed: t("Person 1"), edited: t("Person 2") };

export class Stage {
  #stage;
  #pictures;
  #controls;
  #scale = 1;
  #x = 0; // of the shown part's corner, as a share of the frame
  #y = 0;
  #pointers = new Map();

  constructor({ stage, pictures, controls }) {
    this.#stage = stage;
    this.#pictures = pictures;
    this.#controls = controls;
    stage.addEventListener("wheel", (event) => this.#onWheel(event), { passive: false });
    stage.addEventListener("pointerdown", (event) => this.#onPointerDown(event));
    stage.addEventListener("pointermove", (event) => this.#onPointerMove(event));
    for (const end of ["pointerup", "pointercancel"]) {
      stage.addEventListener(end, (event) => this.#pointers.delete(event.pointerId));
    }
    pictures.addEventListener("dblclick", (event) => this.toggle(event));
    controls.addEventListener("click", (event) => {
      const what = event.target.closest("[data-zoom]")?.dataset.zoom;
      if (what === "in") this.zoomBy(STEP);
      else if (what === "out") this.zoomBy(1 / STEP);
      else if (what === "toggle") this.toggle();
    });
  }

  /** Show pictures that are ready; one that cannot be shown is replaced by the reason. */
  show(pictures, { name, advice }) {
    const figures = pictures.map(({ role, image, error }) => {
      const caption = ROLES[role] ?? "";
      if (image !== null) image.alt = caption === "" ? name : `${caption}, ${name}`;
      const content = image ?? element("div", { class: "cannot-show" },
        element("p", {}, error.message), element("p", { class: "muted" }, advice));
      const figure = element("figure", {}, caption === "" ? null : element("figcaption", {}, caption),
        element("div", { class: "frame" }, content));
      if (image !== null) figure.style.setProperty("--ratio", image.naturalWidth / image.naturalHeight);
      return figure;
    });
    this.#pictures.className = figures.length > 1 ? "pictures pair" : "pictures";
    this.#pictures.replaceChildren(...figures);
    this.#controls.hidden = !this.#hasImages;
    this.reset();
  }

  /** Show a sentence instead of pictures. */
  wait(text) {
    this.#pictures.className = "pictures";
    this.#pictures.replaceChildren(element("p", { class: "waiting muted" }, text));
    this.#controls.hidden = true;
  }

  get isZoomed() {
    return this.#scale > 1;
  }

  reset() {
    this.#scale = 1;
    this.#x = 0;
    this.#y = 0;
    this.#pointers.clear();
    this.#apply();
  }

  /** Between the whole picture and a close-up, around the pointer or the middle. */
  toggle(event = null) {
    if (this.isZoomed) this.reset();
    else this.zoomBy(CLOSE_UP, event);
  }

  zoomBy(factor, event = null) {
    if (!this.#hasImages) return;
    const scale = Math.min(LARGEST, Math.max(1, this.#scale * factor));
    const { x, y } = this.#place(event);
    // The point under the pointer stays under it.
    this.#x += x / this.#scale - x / scale;
    this.#y += y / this.#scale - y / scale;
    this.#scale = scale;
    this.#apply();
  }

  /** Move what is shown by shares of the frame. */
  pan(right, down) {
    this.#x += right / this.#scale;
    this.#y += down / this.#scale;
    this.#apply();
  }

  get #hasImages() {
    return this.#pictures.querySelector("img") !== null;
  }

  #frame(event) {
    return event?.target.closest?.(".frame") ?? this.#pictures.querySelector(".frame");
  }

  #place(event) {
    const frame = this.#frame(event);
    if (event === null || frame === null) return { x: 0.5, y: 0.5 };
    const box = frame.getBoundingClientRect();
    const share = (value) => Math.min(1, Math.max(0, value));
    return { x: share((event.clientX - box.left) / box.width), y: share((event.clientY - box.top) / box.height) };
  }

  #apply() {
    const largest = 1 - 1 / this.#scale;
    this.#x = Math.min(largest, Math.max(0, this.#x));
    this.#y = Math.min(largest, Math.max(0, this.#y));
    const shift = (share) => `${-100 * share * this.#scale}%`;
    for (const image of this.#pictures.querySelectorAll("img")) {
      image.style.transform = this.isZoomed
        ? `translate(${shift(this.#x)}, ${shift(this.#y)}) scale(${this.#scale})` : "";
    }
    this.#pictures.classList.toggle("zoomed", this.isZoomed);
    this.#controls.querySelector("#zoom-level").textContent = this.isZoomed ? `${Math.round(this.#scale * 100)} %` : t("Fit");
  }

  #onWheel(event) {
    if (!this.#hasImages || event.target.closest(".frame") === null) return;
    event.preventDefault();
    this.zoomBy(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), event);
  }

  #onPointerDown(event) {
    if (event.button !== 0 || event.target.closest(".frame") === null) return;
    this.#pointers.set(event.pointerId, { x: event.clientX, y: event.clientY, target: event.target });
    this.#stage.setPointerCapture(event.pointerId);
  }

  #onPointerMove(event) {
    const before = this.#pointers.get(event.pointerId);
    if (before === undefined) return;
    const box = this.#frame(before).getBoundingClientRect();
    const now = { ...before, x: event.clientX, y: event.clientY };
    const other = [...this.#pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other !== undefined) {
      const distance = (point) => Math.hypot(point.x - other.x, point.y - other.y);
      const middle = { target: before.target, clientX: (now.x + other.x) / 2, clientY: (now.y + other.y) / 2 };
      this.zoomBy(distance(now) / Math.max(1, distance(before)), middle);
      this.pan((before.x - now.x) / 2 / box.width, (before.y - now.y) / 2 / box.height);
    } else if (this.isZoomed) {
      this.pan((before.x - now.x) / box.width, (before.y - now.y) / box.height);
    }
    this.#pointers.set(event.pointerId, now);
  }
}
