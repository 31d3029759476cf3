// The labelling page: puts its parts together, and listens to keys and buttons.

import { announce, ask, byId, count, element, isTyping, t, tn } from "./shared.js";
import { renderMarkdown } from "./markdown.js";
import { GridView } from "./grid.js";
import { Panel } from "./panel.js";
import { Stage } from "./stage.js";
import { Work } from "./work.js";

const PACE_OF = 30;
const QUIET_FOR = 1500;
const KEYS_OFF = "labelling-desk|keys-off";

const annotator = decodeURIComponent(location.pathname.split("/").at(-1));
const base = `/api/${encodeURIComponent(annotator)}`;
const stage = new Stage({ stage: byId("stage"), pictures: byId("pictures"), controls: byId("zoom") });
const help = byId("help");

let panel;
let work;
let gridView;
let lastSaid = "";
let refusal = "";
let troubleSince = null;

async function start() {
  stage.wait(t("Opening …"));
  let session;
  try {
    session = await ask(`${base}/session`);
  } catch (error) {
    stage.wait(error.message);
    setTimeout(start, 3000);
    return;
  }
  document.title = `${session.image_set} – ${t("Labelling desk")}`;
  byId("annotator").textContent = session.annotator;
  for (const care of document.querySelectorAll(".care")) care.append(...session.questions.map(({ care }) => (care === "" ? "" : ` ${care}`)));
  byId("guidelines").replaceChildren(...renderMarkdown(session.guidelines));
  work = new Work({ session, base, show: { picture, grid, confirmed, answers, waiting, notice, state, saved, takenBack, refused } });
  gridView = new GridView(byId("grid"), session, { confirm: (labels) => work.confirm(labels), undo: () => MOVES.undo() });
  panel = new Panel(byId("panel"), session, {
    choose: (given) => work.answer(given),
    note: (question, text) => work.note(question, text),
  });
  document.body.classList.toggle("several-questions", panel.isMultiple);
  document.body.classList.toggle("pair-task", session.task === "pairs");
  listKeys(session);
  byId("progress").hidden = false;
  state();
  work.start();
}

// What `Work` has shown

function picture(item, pictures, announceAs) {
  leaveGrid();
  byId("notice").hidden = true;
  byId("moves").hidden = false;
  document.querySelector(".desk").classList.remove("without-panel");
  stage.show(pictures, { name: place(item), advice: advice() });
  answers(item);
  const broken = pictures.find(({ error }) => error !== null);
  const what = broken === undefined ? "" : ` ${broken.error.message} ${advice()}`;
  announce(`${announceAs || lastSaid} ${place(item)}.${what}`.trim());
  lastSaid = "";
}

const isPairs = () => work.session.task === "pairs";

function place(item) {
  return t(isPairs() ? "Pair {n}" : "Picture {n}", { n: count(item.position + 1) });
}

function advice() {
  return { answer: "", "say low quality": t("Press L for low quality, or S to skip it."), skip: t("Press S to skip it.") }[work.may];
}

function answers(item) {
  const { calibration_total: calibration, total } = work.progress;
  const numbers = { n: count(item.position + 1), total: count(item.in_calibration ? calibration : total) };
  const heading = item.in_calibration
    ? t(isPairs() ? "Pair {n} of {total} in the calibration round" : "Picture {n} of {total} in the calibration round", numbers)
    : t(isPairs() ? "Pair {n} of {total}" : "Picture {n} of {total}", numbers);
  let badge = "";
  if (item.locked) badge = t("Closed after discussion");
  else if (item.image_changed) badge = t("Picture has changed: judge again");
  else if (item.asked_again) badge = t("Asked again: judge anew");
  else if (item.done) badge = t("Answered");
  else if (item.answer?.skipped) badge = t("Skipped before");
  panel.show({ item, choices: work.choices(item), heading, badge, note: work.draftNote, may: work.may });
}

function grid(shown) {
  byId("notice").hidden = true;
  document.querySelector(".desk").classList.add("with-grid");
  gridView.show(shown.map(({ item, image }) => ({ image, name: place(item), proposed: item.proposed })));
}

function leaveGrid() {
  document.querySelector(".desk").classList.remove("with-grid");
  byId("grid").hidden = true;
}

function confirmed(number) {
  lastSaid = tn(number, "{n} picture confirmed.", "{n} pictures confirmed.");
}

function waiting(text) {
  leaveGrid();
  byId("notice").hidden = true;
  stage.wait(text);
}

function notice(view) {
  leaveGrid();
  stage.wait("");
  document.querySelector(".desk").classList.add("without-panel");
  const card = view === "calibration" ? calibrationCard() : endCard();
  const box = byId("notice");
  box.replaceChildren(card);
  box.hidden = false;
  announce(card.querySelector("h1").textContent);
  card.querySelector("button, a")?.focus({ preventScroll: true });
}

function calibrationCard() {
  const { calibration_total: total, calibration_done: done } = work.progress;
  const left = total - done;
  const say = (text, kind = null) => element("p", { class: kind }, text);
  return element("div", { class: "card" },
    element("h1", {}, t("The calibration round is over")),
    say(t("You have labelled {n} of {total} in it.", { n: count(done), total: count(total) })
      + (left > 0 ? ` ${tn(left, "{n} you skipped.", "{n} you skipped.")}` : "")),
    say(t("Stop here, and discuss it with the other annotators: look at every disagreement together, agree on a standard, and write it into the guideline.")),
    say(t("From here on you label alone. Going on before the discussion is possible, but what you agree on may then change your answers."), "muted"),
    element("div", { class: "row" },
      element("button", { type: "button", class: "primary", onclick: () => work.goOn() }, t("Continue labelling")),
      element("button", { type: "button", onclick: () => work.move(-1) }, t("Look back"))));
}

function endCard() {
  const { total, done, skipped } = work.progress;
  const { waiting: unsaved } = work.queue.state;
  const row = element("div", { class: "row" });
  const say = (...parts) => element("p", {}, ...parts);
  const card = element("div", { class: "card" });
  const again = (text) => row.append(element("button", { type: "button", class: "primary", onclick: () => work.reviewSkipped() }, text));
  if (total === 0) card.append(element("h1", {}, t("There is nothing to label")), say(t("The image set has no pictures for this task.")));
  else if (skipped > 0) {
    card.append(element("h1", {}, t("You have seen every picture")),
      say(`${tn(done, "{n} picture is labelled.", "{n} pictures are labelled.")} ${tn(skipped, "{n} you skipped.", "{n} you skipped.")} ${
        t("Skipped pictures stay without a label; you may look at them again.")}`));
    again(t("Look at the skipped pictures"));
  } else if (done < total) {
    card.append(element("h1", {}, t("You have seen every picture")), say(t("{n} of {total} pictures are labelled.", { n: count(done), total: count(total) })));
    again(t("Look for the others"));
  } else card.append(element("h1", {}, t("All done. Thank you!")), say(tn(total, "{n} picture is labelled.", "{n} pictures are labelled.")));
  if (unsaved > 0) card.append(say(`${tn(unsaved, "{n} answer is still on the way to the desk.", "{n} answers are still on the way to the desk.")} ${t("Keep this page open until that is done.")}`));
  if (work.session.may_review) {
    card.append(say(t("What comes next: once everybody is done, look at the agreement, and decide the disagreements together.")));
    row.append(element("a", { class: "button", href: "/agreement" }, t("Agreement")), element("a", { class: "button", href: "/adjudication" }, t("Disagreements")));
  } else card.append(say(t("What comes next: tell the coordinator that you are done. You will decide the disagreements together.")));
  if (work.position !== null) row.append(element("button", { type: "button", onclick: () => work.move(-1) }, t("Look back")));
  card.append(row);
  return card;
}

function saved(given, { speak }) {
  const names = given === null ? [t("Skipped")] : Object.entries(given).map(([name, choice]) => {
    const question = work.session.questions.find((one) => one.name === name);
    const text = { low_quality: t("Low quality"), others: t("Other") }[choice.label];
    return text ?? question.choices.find((one) => one.label === choice.label)?.text ?? choice.label;
  });
  const said = [...new Set(names)].join(", ");
  byId("last").textContent = t("Last: {said}, {place}", { said, place: place(work.item) });
  if (speak) announce(`${said}.`);
  else lastSaid = `${said}.`;
}

function takenBack(item) {
  byId("last").textContent = t("Taken back: {place}", { place: place(item) });
}

function refused(message) {
  refusal = message;
  state();
}

/** Progress, pace, and whether everything is saved. */
function state() {
  if (work === undefined || work.queue === undefined) return;
  const { total, done, skipped } = work.progress;
  const bar = byId("progress-bar");
  bar.max = Math.max(1, total);
  bar.value = done;
  byId("progress-done").textContent = t("{n} of {total}", { n: count(done), total: count(total) })
    + (skipped > 0 ? t(", {n} skipped", { n: count(skipped) }) : "");
  byId("pace").textContent = pace(total - done - skipped);
  const { waiting: unsaved, problem, kept } = work.queue.state;
  if (unsaved === 0) troubleSince = null;
  else troubleSince ??= Date.now();
  const sign = byId("saved");
  sign.dataset.state = unsaved === 0 ? "saved" : problem === null ? "saving" : "waiting";
  sign.textContent = { saved: t("All saved"), saving: t("Saving"), waiting: t("{n} not saved", { n: count(unsaved) }) }[sign.dataset.state];
  const banner = byId("banner");
  const isLong = problem !== null && Date.now() - troubleSince >= QUIET_FOR;
  if (problem !== null && !isLong) setTimeout(state, QUIET_FOR);
  banner.hidden = !isLong && refusal === "";
  banner.className = refusal === "" ? "banner warn" : "banner bad";
  const texts = [refusal === "" ? "" : t("An answer was not taken: {why}", { why: refusal }), isLong ? trouble(unsaved, problem, kept) : ""];
  const text = texts.filter((part) => part !== "").join(" ");
  if (banner.dataset.text === text) return;
  banner.dataset.text = text;
  const again = () => { refusal = ""; state(); work.queue.flush(); };
  banner.replaceChildren(element("span", {}, text), element("button", { type: "button", onclick: again }, isLong ? t("Try now") : t("Close")));
}

function trouble(unsaved, problem, kept) {
  const what = tn(unsaved, "Not saved yet: {n} answer.", "Not saved yet: {n} answers.");
  if (problem.status === 401 || problem.status === 403) {
    return `${what} ${t("The desk does not know you any more: open your link once more in this browser, and they are sent.")}`;
  }
  const where = kept ? t("They are kept in this browser and sent as soon as it works; you can go on.") : t("Keep this page open until they are sent.");
  return `${what} ${problem.message} ${where}`;
}

function pace(left) {
  const seconds = median(work.durations.slice(-PACE_OF).map((duration) => duration / 1000)) ?? work.session.progress.seconds_per_image;
  if (seconds === null || seconds <= 0 || left <= 0) return "";
  const minutes = Math.ceil((left * seconds) / 60);
  const remaining = minutes < 90 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
  return t("{n} a minute, about {time} left", { n: count(Math.max(1, Math.round(60 / seconds))), time: remaining });
}

function median(values) {
  if (values.length === 0) return null;
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[Math.floor(sorted.length / 2)];
}

// Keys and buttons

const MOVES = {
  back: () => work.move(-1),
  forward: () => work.move(1),
  undo: () => panel.cancel() || work.undo(),
  skip: () => work.skip(),
  note: () => work.view === "picture" && panel.askNote(),
};

const COMMANDS = {
  ArrowLeft: MOVES.back, ArrowRight: MOVES.forward, u: MOVES.undo, s: MOVES.skip, n: MOVES.note,
  g: openHelp, "?": openHelp, z: () => stage.toggle(), "+": () => stage.zoomBy(1.4), "=": () => stage.zoomBy(1.4),
  "-": () => stage.zoomBy(1 / 1.4),
};
const PANS = { ArrowLeft: [-0.2, 0], ArrowRight: [0.2, 0], ArrowUp: [0, -0.2], ArrowDown: [0, 0.2] };
const MAY_REPEAT = new Set(["+", "=", "-"]);

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.isComposing) return;
  if (help.open) {
    if (event.key.toLowerCase() === "g" && areKeysOn()) { event.preventDefault(); help.close(); }
    return;
  }
  if (event.key === "Escape") {
    if (!panel?.cancel()) stage.reset();
    return;
  }
  if (isTyping(event) || work === undefined) return;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") {
    event.preventDefault();
    MOVES.undo();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || !areKeysOn()) return;
  if (event.shiftKey && PANS[event.key] !== undefined && stage.isZoomed) {
    event.preventDefault();
    stage.pan(...PANS[event.key]);
    return;
  }
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (event.repeat && !MAY_REPEAT.has(key)) return;
  if (work.view === "grid" && gridView.key(event)) event.preventDefault();
  else if (work.view === "picture" && panel.key(event)) event.preventDefault();
  else if (COMMANDS[key] !== undefined) {
    event.preventDefault();
    COMMANDS[key]();
  }
});

byId("moves").addEventListener("click", (event) => MOVES[event.target.closest("[data-move]")?.dataset.move]?.());

function areKeysOn() {
  return byId("use-keys").checked;
}

function openHelp() {
  help.showModal();
}

byId("open-help").addEventListener("click", openHelp);
byId("close-help").addEventListener("click", () => help.close());
help.addEventListener("click", (event) => { if (event.target === help) help.close(); });
try {
  byId("use-keys").checked = localStorage.getItem(KEYS_OFF) === null;
  byId("use-keys").addEventListener("change", () => {
    if (areKeysOn()) localStorage.removeItem(KEYS_OFF);
    else localStorage.setItem(KEYS_OFF, "yes");
  });
} catch { /* without storage the switch holds for this page */ }

function listKeys(session) {
  const choices = session.questions.flatMap((question) => question.choices);
  const pair = session.task === "pairs";
  const rows = [
    ...(pair ? [["1 – 4", t("answer the marked question")]] : choices.map((choice) => [choice.key.toUpperCase(), choice.text])),
    ["L", session.questions.length > 1 ? t("the open questions cannot be judged; then the reason") : t("low quality; then the reason")],
    ["O", t("other, with a note")], ["N", t("a note for the discussion")], ["U, Ctrl Z", t("undo")], ["S", t("skip")],
    ["← →", t("back and forward")], ...(panel.isMultiple ? [["↑ ↓", t("another question")], ["Shift L", t("only the marked question cannot be judged")]] : []),
    ["Z, + −", t("zoom; drag or Shift and an arrow to move")], ["G, ?", t("guideline")],
  ];
  byId("key-list").replaceChildren(...rows.flatMap(([key, what]) => [element("dt", {}, element("kbd", {}, key)), element("dd", {}, what)]));
}

start();
