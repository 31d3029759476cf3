// A page of many pictures with a proposed label each: the wrong ones are changed, then all are confirmed at once.

import { announce, element, t, tn } from "./shared.js";

const LOW_QUALITY = "low_quality";
const ALONE = "";

export class GridView {
  #root;
  #question;
  #proposedBy;
  #actions;
  #cells = [];
  #current = 0;

  /** `actions.confirm(labels)`: the label of each picture, "" for those that are to be asked alone; `actions.undo()`. */
  constructor(root, session, actions) {
    this.#root = root;
    [this.#question] = session.questions;
    this.#proposedBy = session.grid?.proposed_by ?? "";
    this.#actions = actions;
  }

  /** Show pictures: `pictures` holds `image`, the `name` that says which it is, and the `proposed` label. */
  show(pictures) {
    this.#current = 0;
    this.#cells = pictures.map((picture, index) => this.#cell(picture, index));
    const confirm = element("button", { type: "button", class: "primary", onclick: () => this.#confirm() },
      tn(pictures.length, "Confirm {n} picture", "Confirm {n} pictures"), " ", element("kbd", { "aria-hidden": "true" }, "Enter"));
    const undo = element("button", { type: "button", class: "quiet", onclick: () => this.#actions.undo() },
      `${t("Undo")} `, element("kbd", { "aria-hidden": "true" }, "U"));
    this.#root.replaceChildren(
      element("div", { class: "grid-head" },
        element("h1", { id: "grid-title" }, this.#question.text),
        element("p", { class: "caution" }, t("The labels were proposed by {name}. A proposal leads: look at each picture before you confirm. Press a picture to change its label.", { name: this.#proposedBy }))),
      element("ul", { class: "grid-pictures" }, ...this.#cells.map(({ node }) => node)),
      element("div", { class: "row grid-end" }, confirm, undo));
    this.#root.hidden = false;
    this.#root.scrollTop = 0;
    this.#root.focus({ preventScroll: true });
    this.#mark(0, { focus: false });
    announce(`${this.#question.text} ${tn(pictures.length, "{n} picture with a proposed label", "{n} pictures with proposed labels")}`);
  }

  /** Act on a key; gives whether it meant anything here. */
  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.#columns, ArrowDown: this.#columns }[event.key];
    if (step !== undefined) {
      this.#mark(Math.min(this.#cells.length - 1, Math.max(0, this.#current + step)), { focus: true });
      return true;
    }
    if (event.key === "Enter" && !(event.target instanceof HTMLButtonElement)) {
      this.#confirm();
      return true;
    }
    const key = event.key.toLowerCase();
    const label = key === "l" ? LOW_QUALITY : this.#question.choices.find((choice) => choice.key === key)?.label;
    if (label === undefined) return false;
    this.#set(this.#current, label);
    return true;
  }

  get #columns() {
    const top = this.#cells[0].node.offsetTop;
    const next = this.#cells.findIndex(({ node }) => node.offsetTop !== top);
    return next < 0 ? this.#cells.length : next;
  }

  #confirm() {
    this.#actions.confirm(this.#cells.map(({ select }) => select.value));
  }

  #cell({ image, name, proposed }, index) {
    const labels = [...this.#question.choices, { label: LOW_QUALITY, text: t("Low quality") }];
    if (!labels.some(({ label }) => label === proposed)) labels.push({ label: proposed, text: proposed });
    const select = element("select", { "aria-label": t("Label of {picture}", { picture: name }), onchange: () => this.#set(index, select.value) },
      ...labels.map(({ label, text }) => element("option", { value: label, selected: label === proposed }, text)),
      element("option", { value: ALONE }, t("Ask me alone")));
    image.alt = "";
    const said = element("span", { class: "only-read-aloud" });
    const button = element("button", {
      type: "button", class: "grid-picture", onclick: () => this.#next(index), onfocus: () => this.#mark(index, { focus: false }),
    }, image, said);
    const node = element("li", {}, button, select);
    const cell = { node, button, select, said, name, proposed, labels: labels.map(({ label }) => label) };
    say(cell);
    return cell;
  }

  /** The next label of the row, as a press on the picture gives it. */
  #next(index) {
    const { labels, select } = this.#cells[index];
    this.#set(index, labels[(labels.indexOf(select.value) + 1) % labels.length]);
  }

  #set(index, label) {
    const cell = this.#cells[index];
    cell.select.value = label;
    cell.node.classList.toggle("changed", label !== cell.proposed);
    this.#mark(index, { focus: false });
    say(cell);
    announce(cell.said.textContent);
  }

  #mark(index, { focus }) {
    this.#current = index;
    this.#cells.forEach(({ node }, at) => node.classList.toggle("current", at === index));
    if (focus) this.#cells[index].button.focus();
  }
}

/** What a screen reader says of a picture. */
function say({ said, name, select, proposed }) {
  const label = select.selectedOptions[0].textContent;
  said.textContent = select.value === proposed ? t("{picture}: {label}, as proposed", { picture: name, label })
    : t("{picture}: {label}, changed", { picture: name, label });
}
