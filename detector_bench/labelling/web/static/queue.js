// Answers on their way to the desk. Each is kept in the browser until the desk has confirmed it, so that neither a
// reload nor a server that is away loses one; ids make it harmless to send one twice.

import { DeskError, ask } from "./shared.js";

const AT_ONCE = 50;
const LONGEST_WAIT = 15_000;
const OTHER_TABS_TURN = 10_000;

export class SaveQueue {
  #base;
  #prefix;
  #entries = [];
  #made = 0;
  #busy = false;
  #timer = null;
  #failures = 0;
  #onResult;
  #onChange;

  /** `onResult(entry, result)` for each entry that is settled; `onChange()` whenever `state` may have changed. */
  constructor({ base, storedAs, onResult, onChange }) {
    this.#base = base;
    this.#prefix = `${storedAs}|waiting|`;
    this.#onResult = onResult;
    this.#onChange = onChange;
    this.state = { waiting: 0, problem: null, kept: true };
    window.addEventListener("online", () => this.flush());
    setInterval(() => this.takeOver(OTHER_TABS_TURN), LONGEST_WAIT);
    this.takeOver();
  }

  /** Take over what an earlier page or another tab has left waiting, if it is older than so many milliseconds. */
  takeOver(olderThan = 0) {
    this.#adopt(olderThan);
    if (this.#timer === null) this.flush();
  }

  /** Keep an entry, and send it as soon as possible. `kind` is "answers" or "undo", `body` what the desk is sent. */
  push({ kind, id, itemId, body }) {
    const time = Date.now();
    this.#made += 1;
    const key = `${this.#prefix}${String(time).padStart(15, "0")}-${String(this.#made).padStart(6, "0")}-${id}`;
    const entry = { key, kind, id, itemId, time, body };
    this.#entries.push(entry);
    try {
      localStorage.setItem(key, JSON.stringify(entry));
    } catch {
      this.state.kept = false;
    }
    this.#changed();
    if (this.#timer === null) this.flush();
  }

  /** The newest answer to an item that the desk has not confirmed yet; null: an undo; undefined: none. */
  pending(itemId) {
    const entry = this.#entries.findLast((waiting) => waiting.itemId === itemId);
    return entry === undefined ? undefined : entry.kind === "undo" ? null : entry.body;
  }

  /** Whether anything of an item is not confirmed yet. */
  concerns(itemId) {
    return this.#entries.some((waiting) => waiting.itemId === itemId);
  }

  /** Wait until all is confirmed, but not longer than this. */
  async settled(milliseconds) {
    const end = Date.now() + milliseconds;
    while (this.#entries.length > 0 && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 50));
    return this.#entries.length === 0;
  }

  /** Send what waits, oldest first. */
  async flush() {
    clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#busy) return;
    this.#busy = true;
    try {
      while (this.#entries.length > 0) await this.#send(this.#next());
      this.#failures = 0;
      this.state.problem = null;
    } catch (error) {
      if (!(error instanceof DeskError)) throw error;
      this.#failures += 1;
      this.state.problem = error;
      this.#timer = setTimeout(() => this.flush(), Math.min(LONGEST_WAIT, 1000 * 2 ** (this.#failures - 1)));
    } finally {
      this.#busy = false;
      this.#changed();
    }
  }

  #next() {
    if (this.#entries[0].kind === "undo") return this.#entries.slice(0, 1);
    const end = this.#entries.findIndex((entry) => entry.kind === "undo");
    return this.#entries.slice(0, Math.min(AT_ONCE, end < 0 ? this.#entries.length : end));
  }

  async #send(batch) {
    const isUndo = batch[0].kind === "undo";
    const send = isUndo ? batch[0].body : { answers: batch.map((entry) => entry.body) };
    let reply;
    try {
      reply = await ask(`${this.#base}/${batch[0].kind}`, { send, keepalive: batch.length === 1 });
    } catch (error) {
      if (!isFinal(error)) throw error;
      // The desk will never take this. Of several, find the one that it is about.
      if (batch.length > 1) for (const entry of batch) await this.#send([entry]);
      else this.#settle(batch[0], { status: "refused", message: error.message, item: null, progress: null });
      return;
    }
    this.state.problem = null;
    this.#failures = 0;
    for (const entry of batch) {
      const result = isUndo ? { status: "saved", item: reply.item }
        : reply.results.find((one) => one.answer_id === entry.id);
      this.#settle(entry, { ...result, progress: reply.progress });
    }
  }

  #settle(entry, result) {
    this.#entries = this.#entries.filter((waiting) => waiting !== entry);
    try {
      localStorage.removeItem(entry.key);
    } catch { /* then it was never kept there */ }
    this.#changed();
    this.#onResult(entry, result);
  }

  #adopt(olderThan) {
    const known = new Set(this.#entries.map((entry) => entry.key));
    try {
      for (const key of Object.keys(localStorage)) {
        if (!key.startsWith(this.#prefix) || known.has(key)) continue;
        const entry = JSON.parse(localStorage.getItem(key));
        if (Date.now() - entry.time >= olderThan) this.#entries.push(entry);
      }
    } catch {
      this.state.kept = false;
    }
    this.#entries.sort((one, other) => (one.key < other.key ? -1 : 1));
    this.#changed();
  }

  #changed() {
    this.state.waiting = this.#entries.length;
    this.#onChange();
  }
}

/** Whether sending the same thing again can never help. */
function isFinal(error) {
  return error.status >= 400 && error.status < 500 && ![401, 403, 404, 408, 411, 421, 429].includes(error.status);
}
