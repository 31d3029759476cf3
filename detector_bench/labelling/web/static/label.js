// The labelling page: puts its parts together, and listens to keys and buttons.

import { announce, ask, byId, count, counted, element, isTyping } from "./shared.js";
import { renderMarkdown } from "./markdown.js";
import { Panel } from "./panel.js";
import { Stage } from "./stage.js";
import { Work } from "./work.js";

const PACE_OF = 30;
const QUIET_FOR = 1500;
const KEYS_OFF = "labelling-desk|keys-off";

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

const annotator = decodeURIComponent(location.pathname.split("/").at(-1));
const base = `/api/${encodeURIComponent(annotator)}`;
const stage = new Stage({ stage: byId("stage"), pictures: byId("pictures"), controls: byId("zoom") });
const help = byId("help");

let panel;
let work;
let lastSaid = "";
let refusal = "";
let troubleSince = null;

async function start() {
  stage.wait("Opening …");
  let session;
  try {
    session = await ask(`${base}/session`);
  } catch (error) {
    stage.wait(error.message);
    setTimeout(start, 3000);
    return;
  }
  document.title = `${session.image_set} – Labelling desk`;
  byId("annotator").textContent = session.annotator;
  document.querySelector("footer.care").append(...session.questions.map(({ care }) => (care === "" ? "" : ` ${care}`)));
  byId("guidelines").replaceChildren(...renderMarkdown(session.guidelines));
  work = new Work({ session, base, show: { picture, answers, waiting, notice, state, saved, takenBack, refused } });
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
  byId("notice").hidden = true;
  byId("moves").hidden = false;
  document.querySelector(".desk").classList.remove("without-panel");
  stage.show(pictures, { name: place(item), advice: advice() });
  answers(item);
  const broken = pictures.find(({ error }) => error !== null);
  const what = broken === undefined ? "" : ` ${broken.error.message} ${advice()}`;
  announce(`${announceAs || lastSaid} ${capital(place(item))}.${what}`.trim());
  lastSaid = "";
}

/** What is judged. */
function thing() {
  return work.session.task === "pairs" ? "pair" : "picture";
}

function place(item) {
  return `${thing()} ${count(item.position + 1)}`;
}

function advice() {
  return { answer: "", "say low quality": "Press L for low quality, or S to skip it.", skip: "Press S to skip it." }[work.may];
}

function answers(item) {
  const { calibration_total: calibration, total } = work.progress;
  const number = item.position + 1;
  const heading = item.in_calibration
    ? `${capital(thing())} ${count(number)} of ${count(calibration)} in the calibration round`
    : `${capital(thing())} ${count(number)} of ${count(total)}`;
  let badge = "";
  if (item.locked) badge = "Closed after discussion";
  else if (item.image_changed) badge = "Picture has changed: judge again";
  else if (item.done) badge = "Answered";
  else if (item.answer?.skipped) badge = "Skipped before";
  panel.show({ item, choices: work.choices(item), heading, badge, note: work.draftNote, may: work.may });
}

function waiting(text) {
  byId("notice").hidden = true;
  stage.wait(text);
}

function notice(view) {
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
  return element("div", { class: "card" },
    element("h1", {}, "The calibration round is over"),
    element("p", {}, `You have labelled ${count(done)} of its ${counted(total, thing())}${left > 0 ? `; ${count(left)} you skipped` : ""}. `
      + "Stop here, and discuss it with the other annotators: look at every disagreement together, agree on a standard, and write it into the guidelines."),
    element("p", { class: "muted" }, "From here on you label alone. Going on before the discussion is possible, but what you agree on may then change your answers."),
    element("div", { class: "row" },
      element("button", { type: "button", class: "primary", onclick: () => work.goOn() }, "Continue labelling"),
      element("button", { type: "button", onclick: () => work.move(-1) }, "Look back")));
}

function endCard() {
  const { total, done, skipped } = work.progress;
  const { waiting: unsaved } = work.queue.state;
  const row = element("div", { class: "row" });
  const say = (...parts) => element("p", {}, ...parts);
  const card = element("div", { class: "card" });
  if (total === 0) card.append(element("h1", {}, "There is nothing to label"), say("The image set has no pictures for this task."));
  else if (skipped > 0) {
    card.append(element("h1", {}, "You have seen every picture"),
      say(`${counted(done, "picture is", "pictures are")} labelled, ${count(skipped)} you skipped. Skipped pictures stay without a label; you may look at them again.`));
    row.append(element("button", { type: "button", class: "primary", onclick: () => work.reviewSkipped() }, "Look at the skipped pictures"));
  } else if (done < total) {
    card.append(element("h1", {}, "You have seen every picture"), say(`${count(done)} of ${counted(total, "picture")} are labelled.`));
    row.append(element("button", { type: "button", class: "primary", onclick: () => work.reviewSkipped() }, "Look for the others"));
  } else card.append(element("h1", {}, "All done. Thank you!"), say(`All ${counted(total, "picture is", "pictures are")} labelled.`));
  if (unsaved > 0) card.append(say(`${counted(unsaved, "answer is", "answers are")} still on the way to the desk. Keep this page open until that is done.`));
  if (work.session.may_review) {
    card.append(say("What comes next: once everybody is done, look at the agreement, and decide the disagreements together."));
    row.append(element("a", { class: "button", href: "/agreement" }, "Agreement"), element("a", { class: "button", href: "/adjudication" }, "Disagreements"));
  } else card.append(say("What comes next: tell the coordinator that you are done. You will decide the disagreements together."));
  if (work.position !== null) row.append(element("button", { type: "button", onclick: () => work.move(-1) }, "Look back"));
  card.append(row);
  return card;
}

function saved(given, { speak }) {
  const names = given === null ? ["Skipped"] : Object.entries(given).map(([name, choice]) => {
    const question = work.session.questions.find((one) => one.name === name);
    const text = { low_quality: "Low quality", others: "Other" }[choice.label];
    return text ?? question.choices.find((one) => one.label === choice.label)?.text ?? choice.label;
  });
  const said = [...new Set(names)].join(", ");
  byId("last").textContent = `Last: ${said}, ${place(work.item)}`;
  if (speak) announce(`${said}.`);
  else lastSaid = `${said}.`;
}

function takenBack(item) {
  byId("last").textContent = `Taken back: ${place(item)}`;
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
  byId("progress-done").textContent = `${count(done)} of ${count(total)}${skipped > 0 ? `, ${count(skipped)} skipped` : ""}`;
  byId("pace").textContent = pace(total - done - skipped);
  const { waiting: unsaved, problem, kept } = work.queue.state;
  if (unsaved === 0) troubleSince = null;
  else troubleSince ??= Date.now();
  const sign = byId("saved");
  sign.dataset.state = unsaved === 0 ? "saved" : problem === null ? "saving" : "waiting";
  sign.textContent = { saved: "All saved", saving: "Saving", waiting: `${count(unsaved)} not saved` }[sign.dataset.state];
  const banner = byId("banner");
  const isLong = problem !== null && Date.now() - troubleSince >= QUIET_FOR;
  if (problem !== null && !isLong) setTimeout(state, QUIET_FOR);
  banner.hidden = !isLong && refusal === "";
  banner.className = refusal === "" ? "banner warn" : "banner bad";
  const texts = [refusal === "" ? "" : `An answer was not taken: ${refusal}`, isLong ? trouble(unsaved, problem, kept) : ""];
  const text = texts.filter((part) => part !== "").join(" ");
  if (banner.dataset.text === text) return;
  banner.dataset.text = text;
  const again = () => { refusal = ""; state(); work.queue.flush(); };
  banner.replaceChildren(element("span", {}, text), element("button", { type: "button", onclick: again }, isLong ? "Try now" : "Close"));
}

function trouble(unsaved, problem, kept) {
  const what = `Not saved yet: ${counted(unsaved, "answer")}.`;
  if (problem.status === 401 || problem.status === 403) {
    return `${what} The desk does not know you any more: open your link once more in this browser, and they are sent.`;
  }
  const where = kept ? "They are kept in this browser and sent as soon as it works; you can go on." : "Keep this page open until they are sent.";
  return `${what} ${problem.message} ${where}`;
}

function pace(left) {
  const seconds = median(work.durations.slice(-PACE_OF).map((duration) => duration / 1000)) ?? work.session.progress.seconds_per_image;
  if (seconds === null || seconds <= 0 || left <= 0) return "";
  const minutes = Math.ceil((left * seconds) / 60);
  const remaining = minutes < 90 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
  return `${Math.max(1, Math.round(60 / seconds))} a minute, about ${remaining} left`;
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
  if (work.view === "picture" && panel.key(event)) event.preventDefault();
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
    ...(pair ? [["1 – 4", "answer the marked question"]] : choices.map((choice) => [choice.key.toUpperCase(), choice.text])),
    ["L", session.questions.length > 1 ? "the open questions cannot be judged; then the reason" : "low quality; then the reason"],
    ["O", "other, with a note"], ["N", "a note for the discussion"], ["U, Ctrl Z", "undo"], ["S", "skip"],
    ["← →", "back and forward"], ...(panel.isMultiple ? [["↑ ↓", "another question"], ["Shift L", "only the marked question cannot be judged"]] : []),
    ["Z, + −", "zoom; drag or Shift and an arrow to move"], ["G, ?", "guidelines"],
  ];
  byId("key-list").replaceChildren(...rows.flatMap(([key, what]) => [element("dt", {}, element("kbd", {}, key)), element("dd", {}, what)]));
}

start();
