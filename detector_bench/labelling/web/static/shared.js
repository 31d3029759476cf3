// What all pages of the desk share. Text only ever goes into the page as text, never as HTML.

/** Make an element: `element("button", {type: "button", class: "primary"}, "Save", icon)`. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** The element with this id. */
export function byId(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no element ${id}`);
  return found;
}

/** An answer that is not a success: `status` is 0 if the desk could not be reached. */
export class DeskError extends Error {
  constructor(message, status, reason = "") {
    super(message);
    this.status = status;
    this.reason = reason;
  }
}

/** Ask the desk, or tell it something; gives the JSON of the answer. */
export async function ask(address, { send, keepalive = false, seconds = 20 } = {}) {
  const request = { headers: { Accept: "application/json" }, signal: AbortSignal.timeout(seconds * 1000), keepalive };
  if (send !== undefined) {
    request.method = "POST";
    request.headers["Content-Type"] = "application/json";
    request.body = JSON.stringify(send);
  }
  const answer = await reach(address, request);
  const body = answer.ok ? await answer.json().catch(() => null) : null;
  if (body === null) throw await asError(answer);
  return body;
}

async function reach(address, request) {
  try {
    return await fetch(address, request);
  } catch {
    throw new DeskError(t("The desk does not answer."), 0);
  }
}

async function asError(answer) {
  const body = await answer.json().catch(() => null);
  const { message = t("The desk answered {status}.", { status: answer.status }), reason = "" } = body?.error ?? {};
  return new DeskError(message, answer.status, reason);
}

/** A random id (UUID version 4); `crypto.randomUUID` is missing on pages that come without TLS. */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const text = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return text.replace(/^(.{8})(.{4})(.{4})(.{4})/u, "$1-$2-$3-$4-");
}

/** Have a screen reader say something, in the page's element `spoken` (aria-live). */
export function announce(text) {
  byId("spoken").textContent = text;
}

/**
 * Load and decode a picture, so that it can be shown at once.
 * Gives the finished `img`; throws a DeskError with the reason if it cannot be shown.
 */
export async function loadPicture(src) {
  const first = await decoded(src);
  if (first !== null) return first;
  const answer = await reach(src, { cache: "no-store" });
  if (!answer.ok) throw await asError(answer);
  const second = await decoded(src);
  if (second === null) throw new DeskError(t("This browser cannot show the picture."), 422, "browser");
  return second;
}

async function decoded(src) {
  const image = new Image();
  image.decoding = "async";
  image.draggable = false;
  image.alt = "";
  image.src = src;
  return image.decode().then(() => image, () => null);
}

const TEXTS = JSON.parse(document.body?.dataset.texts ?? "{}");

/** A text of the page in its language; `{name}` stands for `values.name`. */
export function t(english, values = {}) {
  return (TEXTS[english] ?? english).replace(/\{([a-z_]+)\}/gu, (whole, name) => values[name] ?? whole);
}

/** One of two texts by a number, which stands in it as `{n}`. */
export function tn(number, one, many, values = {}) {
  return t(number === 1 ? one : many, { ...values, n: count(number) });
}

/** "1,234", as it is written in the page's language. */
export function count(number) {
  return number.toLocaleString(document.documentElement.lang || "en");
}

/** Whether keys typed here are text, not commands. */
export function isTyping(event) {
  const target = event.target;
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement
    || (target instanceof HTMLInputElement && target.type !== "checkbox");
}
