// The adjudication page: puts its parts together, and listens to keys and buttons.

import { announce, byId, count, element, isTyping, t, tn } from "./shared.js";
import { ALL, Cases, PARTS, SHOWN, isOpen, reach } from "./cases.js";
import { CasePanel } from "./case-panel.js";
import { Pictures } from "./items.js";
import { Stage } from "./stage.js";

const REFRESH_EVERY = 20_000;
const TRY_AGAIN = 2000;
const KEYS_OFF = "labelling-desk|keys-off";

const query = new URLSearchParams(location.search);
const stage = new Stage({ stage: byId("stage"), pictures: byId("pictures"), controls: byId("zoom") });
const pictures = new Pictures();
const help = byId("help");
const filters = byId("filters").elements;
const cases = new Cases({ onChange: () => state(), onRefused: (message) => warn(t("A decision was not taken: {why}", { why: message })) });

let panel = null;
let shownAt = null;
let refusal = "";
let isRefreshing = false;
let isPointing = false;

const withNames = () => !filters.hidden.checked;

async function start() {
  stage.wait(t("Opening …"));
  filters.hidden.checked = query.get("names") === "hidden";
  await fetchCases();
  const { items_left: left, calibration_total: calibration } = cases.view;
  const areWorking = left.some((number) => number > 0);
  cases.filter.part = areWorking && calibration > 0 ? "calibration" : ALL;
  for (const name of Object.keys(cases.filter)) if (query.has(name)) cases.filter[name] = query.get(name);
  if (areWorking) {
    const open = tn(left.reduce((one, other) => one + other, 0), "Annotators have {n} picture left to label.", "Annotators have {n} pictures left to label.");
    const advice = calibration > 0
      ? t("Until then, discuss only the calibration round: whoever sees this page knows what the others said.")
      : t("Whoever sees this page knows what the others said.");
    warn(`${open} ${advice}`);
  }
  fillFilters();
  show(cases.first());
  setInterval(() => document.visibilityState === "visible" && refresh(), REFRESH_EVERY);
}

async function fetchCases() {
  await reach(() => cases.load({ withNames: withNames() }), {
    wait: TRY_AGAIN, onAway: (message) => { if (panel === null) stage.wait(message); },
  });
  document.title = `${cases.view.image_set} – ${t("Adjudication")}`;
  document.body.classList.toggle("pair-task", cases.view.task === "pairs");
  panel ??= new CasePanel(byId("panel"), cases.view, decide);
  listKeys();
}

/** Follow what was labelled or decided elsewhere, without moving away from what is looked at. */
async function refresh() {
  if (isRefreshing || cases.queue.state.waiting > 0 || isTyping({ target: document.activeElement })) return;
  isRefreshing = true;
  const before = JSON.stringify(cases.current ?? null);
  await fetchCases().finally(() => { isRefreshing = false; });
  fillFilters();
  if (JSON.stringify(cases.current ?? null) !== before) show(cases.current ?? cases.nextOpen());
  else state();
}

// What is shown

function show(one, { said = "" } = {}) {
  cases.goTo(one);
  state();
  byId("panel").hidden = one === undefined;
  byId("moves").hidden = cases.all.length === 0;
  if (one === undefined) {
    stage.wait("");
    byId("notice").replaceChildren(endCard());
    byId("notice").hidden = false;
    byId("notice").querySelector("button, a")?.focus({ preventScroll: true });
    announce(`${said} ${byId("notice").querySelector("h1").textContent}`.trim());
    return;
  }
  byId("notice").hidden = true;
  const selection = cases.selection();
  const place = selection.indexOf(one) + 1;
  panel.show(one, { heading: place > 0 ? t("Disagreement {n} of {total}", { n: count(place), total: count(selection.length) }) : t("Disagreement") });
  announce(`${said} ${one.choices.map(({ name, label }) => `${name}: ${textOf(one, label)}`).join(", ")}.`.trim());
  paint(one);
}

function textOf(one, label) {
  const question = cases.view.questions.find(({ name }) => name === one.question);
  return question.choices.find((choice) => choice.label === label)?.text ?? label;
}

function paint(one) {
  const sources = [one, cases.nextOpen(), cases.neighbour(1), cases.neighbour(-1)].flatMap((near) => near?.pictures ?? []).map(({ src }) => src);
  pictures.keep(sources);
  for (const src of sources) pictures.get(src);
  const loading = one.pictures.map(({ role, src }) => ({ role, entry: pictures.get(src) }));
  const ready = () => {
    const isAway = loading.some(({ entry: { error } }) => error !== null && error.status !== 422);
    if (isAway) {
      stage.wait(`${t("The desk does not answer.")} ${t("Trying again …")}`);
      setTimeout(() => { if (cases.current === one) paint(one); }, TRY_AGAIN);
      return;
    }
    stage.show(loading.map(({ role, entry: { image, error } }) => ({ role, image, error })), {
      name: t("picture in question"), advice: t("Decide from what was said, or leave it unresolved."),
    });
    shownAt = performance.now();
  };
  shownAt = null;
  if (loading.every(({ entry }) => entry.image !== null || entry.error !== null)) {
    ready();
    return;
  }
  stage.wait(t("The picture is on its way …"));
  Promise.all(loading.map(({ entry }) => entry.ready)).then(() => { if (cases.current === one) ready(); });
}

function endCard() {
  const { total } = cases.progress;
  const row = element("div", { class: "row" }, element("a", { class: "button", href: "/agreement" }, t("Agreement")));
  if (cases.all.length === 0) {
    return card(t("There are no disagreements"), t("Nobody has given different labels to the same picture so far. As soon as somebody does, it shows up here."), row);
  }
  if (total === 0) return card(t("Nothing here"), t("No disagreement is like that. Choose others above."), row);
  row.prepend(element("button", { type: "button", class: "primary", onclick: () => show(cases.selection({ withShow: false })[0]) }, t("Look through them again")));
  row.append(element("a", { class: "button", href: "/export/labels.csv", download: "labels.csv" }, t("Download labels.csv")));
  return card(
    t("Every disagreement is decided"),
    `${tn(total, "{n} disagreement is settled.", "{n} disagreements are settled.")} ${t("Decisions stand in labels.csv as the annotator “adjudicator”.")}`,
    row,
  );
}

function card(title, text, row) {
  return element("div", { class: "card" }, element("h1", {}, title), element("p", {}, text), row);
}

function warn(text) {
  refusal = text;
  state();
}

/** Progress, and whether everything is saved. */
function state() {
  if (cases.view === null || cases.queue === null) return;
  const { total, decided } = cases.progress;
  byId("progress").hidden = false;
  byId("progress-bar").max = Math.max(1, total);
  byId("progress-bar").value = decided;
  byId("progress-done").textContent = t("{n} of {total} decided", { n: count(decided), total: count(total) });
  const { waiting, problem } = cases.queue.state;
  const sign = byId("saved");
  sign.dataset.state = waiting === 0 ? "saved" : problem === null ? "saving" : "waiting";
  sign.textContent = { saved: t("All saved"), saving: t("Saving"), waiting: t("{n} not saved", { n: count(waiting) }) }[sign.dataset.state];
  const away = problem === null || waiting === 0 ? ""
    : [
      tn(waiting, "Not saved yet: {n} decision.", "Not saved yet: {n} decisions."), problem.message,
      t("They are kept in this browser and sent as soon as it works; you can go on."),
    ].join(" ");
  const text = [refusal, away].filter((part) => part !== "").join(" ");
  const banner = byId("banner");
  banner.hidden = text === "";
  if (banner.dataset.text === text) return;
  banner.dataset.text = text;
  banner.replaceChildren(element("span", {}, text), element("button", { type: "button", onclick: () => warn("") }, t("Close")));
}

// Decisions and moves

function decide(choice) {
  const one = cases.current;
  const wasOpen = isOpen(one);
  const milliseconds = shownAt === null ? null : Math.round(performance.now() - shownAt);
  cases.decide(choice, { milliseconds });
  const said = `${panel.inWords(one, one.decision)}.`;
  show(wasOpen ? cases.nextOpen() : one, { said });
}

async function undo() {
  if (panel.cancel()) return;
  const one = await cases.undo({ withNames: withNames() });
  if (one === undefined) announce(t("There is nothing to undo."));
  else show(one, { said: t("Taken back.") });
}

function move(step) {
  if (cases.current === undefined) {
    const all = cases.selection();
    if (step < 0 && all.length > 0) show(all.at(-1));
    return;
  }
  const one = cases.neighbour(step);
  if (one === undefined) announce(step < 0 ? t("This is the first one.") : t("This is the last one."));
  else show(one);
}

const MOVES = {
  back: () => move(-1), forward: () => move(1), undo, note: () => panel.askNote(), next: () => show(cases.nextOpen()),
};
const COMMANDS = {
  ArrowLeft: MOVES.back, ArrowRight: MOVES.forward, u: MOVES.undo, t: MOVES.note, n: MOVES.next, "?": () => help.showModal(),
  z: () => stage.toggle(), "+": () => stage.zoomBy(1.4), "=": () => stage.zoomBy(1.4), "-": () => stage.zoomBy(1 / 1.4),
};
const PANS = { ArrowLeft: [-0.2, 0], ArrowRight: [0.2, 0], ArrowUp: [0, -0.2], ArrowDown: [0, 0.2] };
const MAY_REPEAT = new Set(["+", "=", "-", "ArrowLeft", "ArrowRight"]);

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.isComposing || help.open || panel === null) return;
  isPointing = false;
  if (event.key === "Escape") {
    if (byId("filters").contains(event.target)) toAnswers();
    else if (!panel.cancel()) stage.reset();
    return;
  }
  if (isTyping(event)) return;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") {
    event.preventDefault();
    undo();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || !byId("use-keys").checked) return;
  if (event.shiftKey && PANS[event.key] !== undefined && stage.isZoomed) {
    event.preventDefault();
    stage.pan(...PANS[event.key]);
    return;
  }
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (event.repeat && !MAY_REPEAT.has(key)) return;
  if (cases.current !== undefined && panel.key(event)) event.preventDefault();
  else if (COMMANDS[key] !== undefined) {
    event.preventDefault();
    COMMANDS[key]();
  }
});

byId("moves").addEventListener("click", (event) => MOVES[event.target.closest("[data-move]")?.dataset.move]?.());
byId("open-help").addEventListener("click", () => help.showModal());
byId("close-help").addEventListener("click", () => help.close());
help.addEventListener("click", (event) => { if (event.target === help) help.close(); });
try {
  byId("use-keys").checked = localStorage.getItem(KEYS_OFF) === null;
  byId("use-keys").addEventListener("change", ({ target }) => {
    if (target.checked) localStorage.removeItem(KEYS_OFF);
    else localStorage.setItem(KEYS_OFF, "yes");
  });
} catch { /* without storage the switch holds for this page */ }

function listKeys() {
  const rows = [
    ["1 – 9", t("decide; the key stands on each answer")], ["L, O", t("low quality, other")], ["X", t("leave unresolved: it becomes low-quality")],
    ["T", t("a note on the decision")], ["N", t("the next one that is open")], ["← →", t("back and forward, decided ones too")],
    ["U, Ctrl Z", t("undo")], ["Z, + −", t("zoom; drag or Shift and an arrow to move")], ["?", t("these keys")],
  ];
  byId("key-list").replaceChildren(...rows.flatMap(([key, what]) => [element("dt", {}, element("kbd", {}, key)), element("dd", {}, what)]));
}

// Filters

/** Keys mean answers again, and no longer a choice of the filter. */
function toAnswers() {
  byId("answers").focus({ preventScroll: true });
}

document.addEventListener("pointerdown", () => { isPointing = true; }, { capture: true });

function fillFilters() {
  const { filter, view } = cases;
  const titled = (kinds) => Object.entries(kinds).map(([name, { title }]) => [name, title]);
  const found = (name) => [[ALL, t("All")], ...[...new Set(cases.all.map((one) => one[name]))].sort().map((value) => [value, value])];
  const options = {
    show: titled(SHOWN), part: titled(PARTS), kind: found("kind"), t2i_model: found("t2i_model"),
    question: [[ALL, t("All")], ...view.questions.map(({ name, short }) => [name, short])],
  };
  for (const [name, choices] of Object.entries(options)) {
    if (!choices.some(([value]) => value === filter[name])) filter[name] = ALL;
    filters[name].replaceChildren(...choices.map(([value, text]) => element("option", { value, selected: value === filter[name] }, text)));
  }
  byId("part-field").hidden = view.calibration_total === 0;
  byId("question-field").hidden = view.questions.length < 2;
}

byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("filters").addEventListener("change", async ({ target }) => {
  if (target.name === "hidden") {
    query.set("names", target.checked ? "hidden" : "shown");
    await fetchCases();
    show(cases.current ?? cases.nextOpen());
  } else {
    cases.filter[target.name] = target.value;
    query.set(target.name, target.value);
    show(cases.first());
  }
  if (isPointing) toAnswers();
  history.replaceState(null, "", `?${query}`);
});

start().catch((error) => stage.wait(error.message));
