// The disagreements, which of them are looked at, and what is decided about them.

import { DeskError, ask, newId, t } from "./shared.js";
import { SaveQueue } from "./queue.js";

export const ALL = "all";

/** What `show` accepts: a name for each, and which cases it means. */
export const SHOWN = {
  [ALL]: { title: t("All"), holds: () => true },
  open: { title: t("To decide"), holds: (one) => isOpen(one) },
  decided: { title: t("Decided"), holds: (one) => one.decision !== null },
  unresolved: { title: t("Left unresolved"), holds: (one) => one.decision !== null && one.decision.choice === null },
  changed: { title: t("Changed since decided"), holds: (one) => one.decision?.outdated === true },
};

export const PARTS = {
  [ALL]: { title: t("Everything"), holds: () => true },
  calibration: { title: t("Calibration round"), holds: (one) => one.in_calibration },
  after: { title: t("After calibration"), holds: (one) => !one.in_calibration },
};

/** Not decided, or decided before a label changed. */
export function isOpen(one) {
  return one.decision === null || one.decision.outdated;
}

const keyOf = ({ question, item_id: itemId }) => `${question}|${itemId}`;

export class Cases {
  #onChange;
  #onRefused;
  #history = [];
  #key = null;
  #place = 0;

  /** `onChange(what)`: "saving" if only the state of the queue has changed, else "cases"; `onRefused(message)`. */
  constructor({ onChange, onRefused }) {
    this.#onChange = onChange;
    this.#onRefused = onRefused;
    this.all = [];
    this.view = null;
    this.queue = null;
    this.filter = { show: ALL, part: ALL, question: ALL, kind: ALL, t2i_model: ALL };
  }

  /** Ask the desk for all disagreements. */
  async load({ withNames }) {
    this.view = await ask(`/api/adjudication?names=${withNames ? "shown" : "hidden"}`);
    this.queue ??= new SaveQueue({
      base: "/api/adjudication",
      storedAs: `labelling-desk|${this.view.store}|adjudication`,
      onChange: () => this.#onChange("saving"),
      onResult: (entry, result) => this.#settled(entry, result),
    });
    this.all = this.view.disagreements.map((one) => this.#withPending(one));
    const place = this.all.findIndex((one) => keyOf(one) === this.#key);
    if (place >= 0) this.#place = place;
    else this.#key = null;
    this.#onChange("cases");
  }

  /** The case that is looked at; undefined: none. */
  get current() {
    return this.#key === null ? undefined : this.all[this.#place];
  }

  /** Whether a case is meant by the filter, `show` left aside. */
  #isWanted(one) {
    const { part, ...same } = this.filter;
    return PARTS[part].holds(one) && ["question", "kind", "t2i_model"].every((name) => [ALL, one[name]].includes(same[name]));
  }

  /** Cases that the filter means, with `show` or without. */
  selection({ withShow = true } = {}) {
    return this.all.filter((one) => this.#isWanted(one) && (!withShow || SHOWN[this.filter.show].holds(one)));
  }

  /** How many of the cases that the filter means are decided. */
  get progress() {
    const wanted = this.selection({ withShow: false });
    return { total: wanted.length, decided: wanted.filter((one) => !isOpen(one)).length };
  }

  /** Make a case the current one. */
  goTo(one) {
    this.#key = one === undefined ? null : keyOf(one);
    this.#place = one === undefined ? 0 : this.all.indexOf(one);
  }

  /** The nearest selected case before (-1) or after (1) the current one. */
  neighbour(step) {
    const selected = new Set(this.selection());
    const places = step > 0 ? this.all.slice(this.#place + 1) : this.all.slice(0, this.#place).reverse();
    return places.find((one) => selected.has(one));
  }

  /** Where to begin: the first selected case that is open; without one, any that was asked for by its state. */
  first() {
    const selection = this.selection();
    return selection.find(isOpen) ?? (this.filter.show === ALL ? undefined : selection[0]);
  }

  /** The next case that is open, from the current one on and then from the front. */
  nextOpen() {
    const from = this.#key === null ? 0 : this.#place + 1;
    const inOrder = [...this.all.slice(from), ...this.all.slice(0, from)];
    return inOrder.find((one) => isOpen(one) && this.#isWanted(one));
  }

  /** Decide the current case; null leaves it unresolved. */
  decide(choice, { milliseconds }) {
    const one = this.current;
    const id = newId();
    this.#history.push({ key: keyOf(one), id, before: one.decision });
    one.decision = { choice, outdated: false };
    this.queue.push({
      kind: "answers", id, itemId: keyOf(one),
      body: { answer_id: id, item_id: one.item_id, question: one.question, choice, milliseconds },
    });
  }

  /** Take the last decision back; gives its case, or undefined if there is none. */
  async undo({ withNames }) {
    const last = this.#history.pop();
    const id = newId();
    let undone = "";
    this.#undone = (itemId) => { undone = itemId; };
    this.queue.push({ kind: "undo", id, itemId: last?.key ?? "", body: { undo_id: id, answer_id: last?.id ?? null } });
    const place = last === undefined ? -1 : this.all.findIndex((one) => keyOf(one) === last.key);
    if (place >= 0) {
      this.all[place].decision = last.before;
      return this.all[place];
    }
    await this.queue.settled(5000); // made before this page was opened: only the desk knows which it was
    await this.load({ withNames });
    return this.all.find((one) => one.item_id === undone && one.decision === null)
      ?? this.all.find((one) => one.item_id === undone);
  }

  #undone = () => undefined;

  #settled(entry, result) {
    if (result.status === "refused") {
      this.#onRefused(result.message);
      return;
    }
    if (entry.kind === "undo") {
      this.#undone(result.item?.item_id ?? "");
      return;
    }
    const one = this.all.find((known) => keyOf(known) === entry.itemId);
    if (one !== undefined && !this.queue.concerns(entry.itemId)) one.decision = result.item.decision;
    this.#onChange("saving");
  }

  #withPending(one) {
    const pending = this.queue.pending(keyOf(one));
    if (pending === undefined) return one;
    return { ...one, decision: pending === null ? null : { choice: pending.choice, outdated: false } };
  }
}

/** Do something again and again while the desk is away. */
export async function reach(work, { onAway, wait }) {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof DeskError) || [401, 403, 404].includes(error.status)) throw error;
      onAway(error.message);
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
}
