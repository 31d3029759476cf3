// The items of one annotator, fetched in portions as they come near, and the pictures that belong to them.

import { ask, loadPicture } from "./shared.js";

const PORTION = 100;

export class Items {
  #base;
  #byPosition = new Map();
  #putAt = new Map();
  #portions = new Map();
  #mend;

  /** `mend(item)` gives the item as it is with answers that are not confirmed yet. */
  constructor({ base, total, mend }) {
    this.#base = base;
    this.total = total;
    this.#mend = mend;
  }

  /** The item at a position, if it was fetched. */
  at(position) {
    return this.#byPosition.get(position);
  }

  /** The item at a position, fetched if need be. */
  async get(position) {
    const portion = Math.floor(position / PORTION);
    if (!this.#portions.has(portion)) {
      const fetching = this.#fetch(portion);
      this.#portions.set(portion, fetching);
      fetching.catch(() => this.#portions.delete(portion));
    }
    await this.#portions.get(portion);
    return this.#byPosition.get(position);
  }

  /** Ask again what is known of the neighbours of a position; gives the annotator's progress. */
  async refresh(position) {
    const portions = [Math.floor(position / PORTION), Math.floor((position + PORTION / 2) / PORTION)];
    for (const portion of [...this.#portions.keys()]) if (!portions.includes(portion)) this.#portions.delete(portion);
    const fetched = await Promise.all([...new Set(portions)].map((portion) => {
      const fetching = this.#fetch(portion);
      this.#portions.set(portion, fetching);
      fetching.catch(() => this.#portions.delete(portion));
      return fetching;
    }));
    return fetched[0];
  }

  /** Keep an item as it is now, whatever a request that is under way says about it. */
  put(item) {
    this.#byPosition.set(item.position, item);
    this.#putAt.set(item.position, performance.now());
  }

  /** The first position after one for which `wanted(item)` holds; null: none; undefined: not fetched that far. */
  nextKnown(after, wanted) {
    for (let position = after + 1; position < this.total; position += 1) {
      const item = this.#known(position);
      if (item === undefined) return undefined;
      if (wanted(item)) return position;
    }
    return null;
  }

  /** Like `nextKnown`, fetching as far as it takes. */
  async next(after, wanted) {
    for (let position = after + 1; position < this.total; position += 1) {
      const item = this.#known(position) ?? await this.get(position);
      if (item === undefined) return null;
      if (wanted(item)) return position;
    }
    return null;
  }

  #known(position) {
    return this.#portions.has(Math.floor(position / PORTION)) ? this.#byPosition.get(position) : undefined;
  }

  async #fetch(portion) {
    const first = portion * PORTION;
    if (first >= this.total) return null;
    const asked = performance.now();
    const { items, progress } = await ask(`${this.#base}/items?first=${first}&count=${PORTION}`);
    for (const item of items) {
      if ((this.#putAt.get(item.position) ?? 0) < asked) this.#byPosition.set(item.position, this.#mend(item));
    }
    return progress;
  }
}

export class Pictures {
  #entries = new Map();

  /** A picture on its way: `image` once it is decoded, `error` if it cannot be shown, `ready` a promise of either. */
  get(src) {
    let entry = this.#entries.get(src);
    if (entry === undefined) {
      entry = { image: null, error: null, ready: null };
      entry.ready = loadPicture(src).then(
        (image) => { entry.image = image; },
        (error) => {
          entry.error = error;
          if (error.status !== 422) this.#entries.delete(src); // the desk was away: it is tried again
        },
      );
      this.#entries.set(src, entry);
    }
    return entry;
  }

  /** Forget every picture but these; what was forgotten is fetched again when it is asked for. */
  keep(sources) {
    const kept = new Set(sources);
    for (const src of this.#entries.keys()) if (!kept.has(src)) this.#entries.delete(src);
  }
}
