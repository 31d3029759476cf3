// One annotator at work: which item is shown, what is answered, and how one gets from one to the next.

import { DeskError, announce, newId, t } from "./shared.js";
import { Items, Pictures } from "./items.js";
import { SaveQueue } from "./queue.js";

const AHEAD = 6;
const BEHIND = 2;
const ITEMS_AHEAD = 30;
const TRY_AGAIN = 2000;
const SETTLED_AFTER = 1000;

/** `view` is "picture", "grid" (many with proposed labels), "calibration" (its round is over), "end" or "waiting". */
export class Work {
  #base;
  #items;
  #pictures = new Pictures();
  #history = [];
  #channel;
  #shownAt = null;
  #spent = 0;
  #calibrationSeen = false;
  #withSkipped = false;
  #settling = null;
  #alone = new Set();
  #proposed = new Map(); // what was seen as a proposal, also where the label is changed later
  #show;

  /**
   * `show.picture(item, pictures)` paints an item, `show.grid(pictures)` many at once, `show.waiting(text)` says that one waits, `show.notice(view)`
   * stands for a page without a picture, `show.state()` follows everything that changes numbers, `show.saved(text)`
   * says what was kept, `show.takenBack(item)` what is no longer, and `show.refused(message)` what was not taken.
   */
  constructor({ session, base, show }) {
    this.session = session;
    this.progress = session.progress;
    this.durations = [];
    this.view = "waiting";
    this.position = null;
    this.draftNote = "";
    this.may = "skip";
    this.#base = base;
    this.#show = show;
    const storedAs = `labelling-desk|${session.store}|${session.annotator}`;
    this.queue = new SaveQueue({
      base, storedAs, onChange: () => this.#show.state(), onResult: (entry, result) => this.#settled(entry, result),
    });
    this.#items = new Items({ base, total: session.progress.total, mend: (item) => this.#withPending(item) });
    this.#channel = new BroadcastChannel(storedAs);
    this.#channel.onmessage = ({ data }) => this.#followOtherTab(data.item);
    document.addEventListener("visibilitychange", () => this.#onVisibility());
  }

  async start() {
    const { next_position: next, total, done, skipped, calibration_total: calibration } = this.progress;
    if (total === 0 || (next === null && !this.queue.state.waiting)) return this.#notice("end");
    const first = await this.#reach(() => this.#items.next((next ?? 0) - 1, (item) => this.#isOpen(item)));
    if (first === null) return this.#finish();
    if (first === calibration && first > 0 && done + skipped <= calibration && !this.progress.calibration_discussed) {
      this.position = first - 1;
      await this.#reach(() => this.#items.get(first - 1));
    }
    return this.#goTo(first);
  }

  get item() {
    return this.position === null ? undefined : this.#items.at(this.position);
  }

  /** The answers of an item so far, by question; those to other content do not count, nor what is asked again. */
  choices(item) {
    return item.image_changed || item.asked_again ? {} : item.answer?.answers ?? {};
  }

  /** Answer questions about the item on the stage: `given` holds choices by question. */
  answer(given, { stay = false } = {}) {
    const { item } = this;
    if (this.view !== "picture" || item.locked) return;
    const [first] = Object.keys(given);
    const note = given[first].note || this.draftNote;
    const answers = { ...this.choices(item), ...given, [first]: { ...given[first], note } };
    this.draftNote = "";
    const wasDone = item.done;
    const isDone = this.session.questions.every((question) => answers[question.name] !== undefined);
    if (isDone && !wasDone) this.durations.push(this.#milliseconds());
    this.#keep(item, { answers, skipped: false }, { done: isDone, image_changed: false, asked_again: false });
    const isOver = isDone && !stay && (!wasDone || this.session.questions.length === 1);
    this.#show.saved(given, { speak: !isOver });
    if (isOver) this.#advance();
    else this.#repaint();
  }

  skip() {
    const { item } = this;
    if (this.view !== "picture") return;
    if (item.done) {
      announce(t("This picture is answered. Undo takes the answer back."));
      return;
    }
    this.draftNote = "";
    this.#keep(item, { answers: {}, skipped: true }, { done: false, asked_again: false });
    this.#show.saved(null, { speak: false });
    this.#advance();
  }

  /** Keep a note: with the next answer, or at once if the question is answered already. */
  note(question, text) {
    const choice = this.choices(this.item)[question];
    if (choice !== undefined) this.answer({ [question]: { ...choice, note: text } }, { stay: true });
    else this.draftNote = text;
    announce(t("The note is kept."));
    this.#repaint();
  }

  undo() {
    if (this.view === "waiting") return;
    const last = this.#history.pop();
    const id = newId();
    this.queue.push({
      kind: "undo", id, itemId: last?.before.item_id ?? "", body: { undo_id: id, answer_id: last?.answerId ?? null },
    });
    if (last === undefined) return; // the desk will say what was taken back
    this.#put(last.before);
    this.#show.takenBack(last.before);
    this.#goTo(last.before.position, { announceAs: t("Taken back.") });
  }

  async move(step) {
    if (["calibration", "end", "grid"].includes(this.view)) {
      if (step < 0 && this.position !== null) this.#paint(this.item);
      return;
    }
    if (this.view !== "picture") return;
    if (step > 0 && this.#isOpen(this.item)) {
      announce(t("Answer this picture first, or skip it."));
      return;
    }
    const position = this.position + step;
    if (position < 0) announce(t("This is the first picture."));
    else if (position >= this.progress.total) this.#finish();
    else if ((await this.#reach(() => this.#items.get(position))) !== undefined) this.#goTo(position);
  }

  /** Keep the labels of a page of pictures, in their order; "" means that a picture is to be asked alone. */
  confirm(labels) {
    if (this.view !== "grid") return;
    const [{ name }] = this.session.questions;
    const milliseconds = Math.round(this.#milliseconds() / this.grid.length);
    this.grid.forEach((item, index) => {
      const label = labels[index];
      if (label === "") {
        this.#alone.add(item.item_id);
        return;
      }
      this.#proposed.set(item.item_id, item.proposed);
      this.durations.push(milliseconds);
      const answers = { [name]: { label, reason: "", note: "", value: null } };
      this.#keep(item, { answers, skipped: false, milliseconds }, { done: true });
    });
    this.#show.confirmed(labels.filter((label) => label !== "").length);
    this.#advance();
  }

  /** Go on after a notice, or after looking back. */
  goOn() {
    this.#calibrationSeen = true;
    this.#advance();
  }

  reviewSkipped() {
    this.#withSkipped = true;
    this.#find(-1);
  }

  // Answers and what becomes of them

  /** What can be said about pictures: those without a file can only be skipped, damaged ones are low quality. */
  #mayWith(pictures) {
    const faults = pictures.filter(({ error }) => error !== null);
    if (faults.length === 0) return "answer";
    return faults.some(({ error }) => error.reason === "not_there") ? "skip" : "say low quality";
  }

  #keep(item, { answers, skipped, milliseconds = this.#milliseconds() }, changes) {
    const answerId = newId();
    const { language, wording, grid } = this.session;
    const proposed = this.#proposed.get(item.item_id) ?? item.answer?.proposed ?? "";
    const asking = { language, wording, proposed, proposed_by: proposed === "" ? "" : grid?.proposed_by ?? "" };
    const body = { answer_id: answerId, item_id: item.item_id, answers, skipped, milliseconds, asking };
    this.#history.push({ answerId, before: item });
    this.#put({ ...item, ...changes, answer: { answer_id: answerId, answers, skipped, proposed } });
    this.queue.push({ kind: "answers", id: answerId, itemId: item.item_id, body });
  }

  /** Take an item as it is now: into the list, the counts, and the other tabs. */
  #put(item, { tell = true } = {}) {
    const before = this.#items.at(item.position);
    if (before !== undefined) {
      const change = (of) => Number(of(item)) - Number(of(before));
      const skipped = (one) => !one.done && Boolean(one.answer?.skipped);
      const done = change((one) => one.done);
      this.progress = {
        ...this.progress,
        done: this.progress.done + done,
        skipped: this.progress.skipped + change(skipped),
        calibration_done: this.progress.calibration_done + (item.in_calibration ? done : 0),
      };
    }
    this.#items.put(item);
    if (tell) this.#channel.postMessage({ item });
  }

  #settled(entry, result) {
    if (result.status === "refused") {
      this.#show.refused(result.message);
      this.#history = this.#history.filter((made) => made.answerId !== entry.id);
      this.#refresh();
    }
    const { item } = result;
    if (entry.kind === "undo" && entry.itemId === "") {
      if (item === null && result.status !== "refused") announce(t("There is nothing to undo."));
      if (item !== null) this.#takeBack(item);
    } else if (item !== null && !this.queue.concerns(item.item_id)) {
      this.#put(item, { tell: false });
    }
    if (result.progress !== null && this.queue.state.waiting === 0) this.progress = result.progress;
    this.#show.state();
  }

  async #takeBack(item) {
    await this.#reach(() => this.#items.get(item.position));
    this.#put(item);
    this.#show.takenBack(item);
    this.#goTo(item.position, { announceAs: t("Taken back.") });
  }

  #withPending(item) {
    const pending = this.queue.pending(item.item_id);
    if (pending === undefined || pending === null) return item;
    const { answer_id: answerId, answers, skipped, asking } = pending;
    const done = this.session.questions.every((question) => answers[question.name] !== undefined);
    return { ...item, answer: { answer_id: answerId, answers, skipped, proposed: asking?.proposed ?? "" }, done, image_changed: false, asked_again: false };
  }

  #followOtherTab(item) {
    const isShown = this.view === "picture" && this.item?.item_id === item.item_id;
    const wasOpen = isShown && this.#isOpen(this.item);
    this.#put(item, { tell: false });
    if (isShown && wasOpen && !this.#isOpen(item)) this.#advance();
    else if (isShown) this.#repaint();
    this.#show.state();
    // The tabs' answers and the desk's replies cross on their way; what the desk says afterwards is right.
    clearTimeout(this.#settling);
    this.#settling = setTimeout(() => this.#refresh(), SETTLED_AFTER);
  }

  /** Follow what was answered elsewhere, on another device for instance. */
  async #refresh() {
    if (this.position === null) return;
    this.queue.takeOver();
    try {
      const wasOpen = this.view === "picture" && this.#isOpen(this.item);
      const progress = await this.#items.refresh(this.position);
      if (progress !== null && this.queue.state.waiting === 0) this.progress = progress;
      if (wasOpen && !this.#isOpen(this.item)) this.#advance();
      else if (this.view === "picture") this.#repaint();
      this.#show.state();
    } catch (error) {
      if (!(error instanceof DeskError)) throw error;
    }
  }

  #onVisibility() {
    const now = performance.now();
    if (document.visibilityState === "hidden") {
      if (this.#shownAt !== null) this.#spent += now - this.#shownAt;
      this.#shownAt = null;
    } else {
      if (this.view === "picture" || this.view === "grid") this.#shownAt = now;
      this.#refresh();
    }
  }

  #milliseconds() {
    return Math.round(this.#spent + (this.#shownAt === null ? 0 : performance.now() - this.#shownAt));
  }

  // From one item to the next

  #isOpen(item) {
    return !item.done && !item.locked && (this.#withSkipped || !item.answer?.skipped);
  }

  #advance() {
    const known = this.#items.nextKnown(this.position, (item) => this.#isOpen(item));
    if (known === undefined) this.#find(this.position);
    else if (known === null) this.#finish();
    else this.#goTo(known);
  }

  async #find(after) {
    this.#wait(t("Looking for the next picture …"));
    const found = await this.#reach(() => this.#items.next(after, (item) => this.#isOpen(item)));
    if (found === null) this.#finish();
    else this.#goTo(found);
  }

  /** The end of the order is reached: is anything left before it? */
  async #finish() {
    this.#wait("");
    await this.queue.settled(3000);
    if (this.queue.state.waiting === 0) {
      const next = await this.#reach(async () => {
        this.progress = await this.#items.refresh(0) ?? this.progress;
        const position = this.progress.next_position;
        return position === null ? null : this.#items.get(position);
      });
      const isLater = this.#withSkipped && next !== null && next.position <= this.position;
      if (next && this.#isOpen(next) && !isLater) return this.#goTo(next.position);
    }
    this.#withSkipped = false;
    return this.#notice("end");
  }

  #goTo(position, { announceAs = "" } = {}) {
    const next = this.#items.at(position);
    const isOver = this.item?.in_calibration && !next.in_calibration && position > this.position;
    if (isOver && !this.#calibrationSeen && !this.progress.calibration_discussed && this.#isOpen(next)) {
      this.#prepare(position);
      this.#notice("calibration");
      return;
    }
    if (position !== this.position) this.draftNote = "";
    this.position = position;
    if (announceAs === "" && this.#isForGrid(next)) this.#paintGrid(position);
    else this.#paint(next, announceAs);
  }

  #isForGrid(item) {
    return item.proposed !== "" && this.#isOpen(item) && !item.answer && !this.#alone.has(item.item_id);
  }

  /** Show the next pictures that have a proposed label; the others come up alone, in their turn. */
  async #paintGrid(position) {
    this.#wait(t("The pictures are on their way …"));
    const items = [];
    for (let at = position - 1; items.length < this.session.grid.size;) {
      const after = at;
      at = await this.#reach(() => this.#items.next(after, (item) => this.#isForGrid(item)));
      if (at === null) break;
      items.push(this.#items.at(at));
    }
    const sources = items.flatMap(({ pictures }) => pictures.map(({ src }) => src));
    this.#pictures.keep(sources);
    const entries = sources.map((src) => this.#pictures.get(src));
    await Promise.all(entries.map(({ ready }) => ready));
    if (this.view !== "waiting" || this.position !== position) return;
    if (entries.some(({ error }) => error !== null && error.status !== 422)) {
      setTimeout(() => this.view === "waiting" && this.position === position && this.#paintGrid(position), TRY_AGAIN);
      return;
    }
    // What cannot be shown cannot be confirmed.
    entries.forEach(({ error }, index) => error !== null && this.#alone.add(items[index].item_id));
    this.grid = items.filter((_, index) => entries[index].error === null);
    if (this.grid.length === 0) {
      this.#goTo(position);
      return;
    }
    this.#spent = 0;
    this.#shownAt = document.visibilityState === "visible" ? performance.now() : null;
    this.view = "grid";
    this.#show.grid(this.grid.map((item) => ({ item, image: this.#pictures.get(item.pictures[0].src).image })));
  }

  #paint(item, announceAs = "") {
    this.#shownAt = null;
    this.#spent = 0;
    const pictures = item.pictures.map(({ role, src }) => ({ role, loading: this.#pictures.get(src) }));
    const isReady = ({ loading }) => loading.image !== null || loading.error !== null;
    const paint = () => {
      const shown = pictures.map(({ role, loading: { image, error } }) => ({ role, image, error }));
      this.may = this.#mayWith(shown);
      this.view = "picture";
      if (document.visibilityState === "visible") this.#shownAt = performance.now();
      this.#show.picture(item, shown, announceAs);
      this.#prepare(item.position);
    };
    if (pictures.every(isReady)) {
      paint();
      return;
    }
    this.#wait(t("The picture is on its way …"));
    Promise.all(pictures.map(({ loading }) => loading.ready)).then(() => {
      if (this.view !== "waiting" || this.position !== item.position) return;
      const away = pictures.some(({ loading }) => loading.error !== null && loading.error.status !== 422);
      if (!away) paint();
      else setTimeout(() => this.view === "waiting" && this.position === item.position && this.#paint(item), TRY_AGAIN);
    });
  }

  #repaint() {
    if (this.view === "picture") this.#show.answers(this.item);
  }

  #wait(text) {
    this.view = "waiting";
    this.#show.waiting(text);
  }

  #notice(view) {
    this.view = view;
    this.#shownAt = null;
    this.#show.notice(view);
  }

  /** Load what comes next, and keep what was just seen. */
  #prepare(position) {
    const sources = [];
    const add = (at) => sources.push(...(this.#items.at(at)?.pictures ?? []).map(({ src }) => src));
    add(position);
    for (let at = position, found = 0; found < AHEAD; found += 1) {
      at = this.#items.nextKnown(at, (item) => this.#isOpen(item)) ?? null;
      if (at === null) break;
      add(at);
    }
    for (let back = 1; back <= BEHIND; back += 1) add(position - back);
    this.#pictures.keep(sources);
    for (const src of sources) this.#pictures.get(src);
    const further = Math.min(position + ITEMS_AHEAD, this.progress.total - 1);
    this.#items.get(further).then(() => undefined, () => undefined);
  }

  /** Do what needs the desk, again and again while it is away. */
  async #reach(work) {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof DeskError)) throw error;
        this.#show.waiting(`${error.message} ${t("Trying again …")}`);
        await new Promise((resolve) => setTimeout(resolve, TRY_AGAIN));
      }
    }
  }
}
