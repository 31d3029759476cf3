// The agreement page: asks every few seconds, and shows what has changed.

import { announce, ask, byId, count, element, newId, t, tn } from "./shared.js";
import { confusionTable, interval, numbers, scopesTable, table } from "./agreement-tables.js";
import { gradedScale } from "./scale.js";

const EVERY = 4000;
const SPOKEN_EVERY = 30_000;
const ALL = "all";
const PARAMETERS = ["question", "part", "first", "second", "t2i_model", "category"];

const query = new URLSearchParams(location.search);
const shown = new Map();
let timer = null;
let asked = 0;
let spokenAt = -SPOKEN_EVERY;
let spoken = "";

async function refresh() {
  clearTimeout(timer);
  asked += 1;
  const mine = asked;
  try {
    const view = await ask(`/api/agreement?${query}`);
    if (mine !== asked) return; // something else was asked for meanwhile
    show(view);
    state("live", t("Live"));
  } catch (error) {
    if (mine !== asked) return;
    if (error.status === 400) forgetChoices();
    state("away", error.message);
  }
  if (document.visibilityState === "visible") timer = setTimeout(refresh, EVERY);
}

function state(name, text) {
  byId("live").dataset.state = name;
  byId("live").textContent = text;
}

/** An annotator or category of the address may not exist (yet): show everything instead. */
function forgetChoices() {
  for (const name of PARAMETERS) query.delete(name);
  keepInAddress();
}

function keepInAddress() {
  history.replaceState(null, "", query.size > 0 ? `?${query}` : location.pathname);
}

function show(view) {
  byId("image-set").textContent = view.image_set;
  part("filters", [view.questions, view.question, view.parts, view.part, view.pairs.map(pairName), view.compared], () => showFilters(view));
  part("verdict", [view.verdict, view.agreement], () => showVerdict(view));
  part("annotators", view.annotators, () => showAnnotators(view.annotators));
  part("worth", view.worth, () => showWorth(view.worth));
  part("calibration", [view.calibration, view.rounds, view.annotators], () => showCalibration(view));
  part("confusion", [view.confusion, view.t2i_models, view.categories, view.compared], () => showConfusion(view));
  part("scopes", view.scopes, () => byId("scopes").replaceChildren(scopesTable(view)));
  part("pairs", view.pairs, () => showPairs(view.pairs));
  part("ways", view.ways, () => showWays(view.ways));
}

/** Draw a part of the page again only if its numbers are others: nobody loses the place where they read. */
function part(name, numbersOfIt, draw) {
  const text = JSON.stringify(numbersOfIt);
  if (shown.get(name) === text) return;
  shown.set(name, text);
  draw();
}

const pairName = ({ first, second }) => t("{first} and {second}", { first, second });

function showFilters(view) {
  const filters = byId("filters").elements;
  byId("question-field").hidden = view.questions.length < 2;
  fill(filters.question, view.questions.map(({ name, title }) => [name, title]), view.question);
  fill(filters.part, view.parts.map(({ name, title }) => [name, title]), view.part);
  byId("annotators-field").hidden = view.pairs.length < 2;
  const pairs = view.pairs.map((pair) => [JSON.stringify([pair.first, pair.second]), pairName(pair)]);
  const chosen = query.has("first") ? JSON.stringify([query.get("first"), query.get("second")]) : ALL;
  fill(filters.annotators, [[ALL, t("All together")], ...pairs], chosen);
}

function fill(select, options, chosen) {
  select.replaceChildren(...options.map(([value, text]) => element("option", { value, selected: value === chosen }, text)));
}

function showVerdict({ verdict, agreement, grades, grades_source: source }) {
  byId("verdict-title").textContent = verdict.title;
  byId("verdict-text").textContent = verdict.text;
  byId("verdict-caution").textContent = verdict.caution;
  byId("verdict-caution").hidden = verdict.caution === "";
  byId("grades-source").textContent = source;
  byId("verdict-scale").replaceChildren(gradedScale(agreement, grades, { label: t("Kappa {value}", { value: interval(agreement) }) }));
  sayNow(`${verdict.title}. ${t("Kappa {value}", { value: interval(agreement) })}.`);
}

/** A screen reader is told of news, but not at every answer. */
function sayNow(text) {
  const now = performance.now();
  if (text === spoken || now - spokenAt < SPOKEN_EVERY) return;
  spoken = text;
  spokenAt = now;
  announce(text);
}

function showAnnotators(annotators) {
  byId("annotators").replaceChildren(...annotators.map(({ name, done, total }, index) => {
    const id = `annotator-${index}`;
    return element("li", {},
      element("span", { class: "who" },
        element("span", { class: "name", id }, name),
        element("span", { class: "number muted" }, t("{n} of {total}", { n: count(done), total: count(total) }))),
      element("progress", { value: done, max: Math.max(1, total), "aria-labelledby": id }));
  }));
}

function showWorth(worth) {
  byId("worth").hidden = worth === null;
  if (worth === null) return;
  byId("worth-lines").replaceChildren(...worth.lines.map((line) => element("li", {}, line)));
  byId("worth-problem").textContent = worth.problem;
  byId("worth-problem").hidden = worth.problem === "";
}

function showCalibration({ calibration, rounds, annotators }) {
  byId("calibration").hidden = calibration.total === 0;
  if (calibration.total === 0) return;
  const left = annotators.filter((one) => one.calibration_done < one.calibration_total).map(({ name }) => name);
  byId("calibration-text").textContent = calibrationText(calibration, left);
  byId("rounds").replaceChildren(table(
    ["", ...numbers.headings],
    rounds.map((round) => ({ name: round.title, cells: numbers.cells(round) })),
  ));
  const isBegun = calibration.discussed || annotators.some((one) => one.calibration_done > 0);
  const text = calibration.discussed ? t("Open it again") : t("Mark as discussed");
  if (!isBegun) byId("calibration-actions").replaceChildren();
  else byId("calibration-actions").replaceChildren(element("button", {
    type: "button", class: !calibration.discussed && left.length === 0 ? "primary" : "",
    onclick: (event) => setDiscussed(event.currentTarget, !calibration.discussed),
  }, text));
}

function calibrationText({ total, discussed }, left) {
  const pictures = tn(total, "Everybody labels the same {n} picture first.", "Everybody labels the same {n} pictures first.");
  const rest = discussed
    ? t("It was discussed, and its answers are closed. To change answers after the discussion, open it again; the numbers here stay those from before.")
    : left.length > 0 ? t("Not through yet: {names}.", { names: left.join(", ") })
      : t("Everybody is through: discuss the disagreements, agree on a standard, then mark the round as discussed.");
  return `${pictures} ${rest}`;
}

async function setDiscussed(button, discussed) {
  button.disabled = true;
  try {
    await ask("/api/agreement/calibration", { send: { event_id: newId(), discussed } });
    announce(discussed ? t("The calibration round is closed.") : t("The calibration round is open again."));
    byId("banner").hidden = true;
  } catch (error) {
    byId("banner").textContent = error.message;
    byId("banner").hidden = false;
  }
  button.disabled = false;
  await refresh();
  byId("calibration-actions").querySelector("button")?.focus({ preventScroll: true });
}

function showConfusion(view) {
  const filters = byId("confusion-filters").elements;
  const options = (names) => [[ALL, t("All")], ...names.map((name) => [name, name])];
  byId("confusion-filters").hidden = view.confusion === null;
  fill(filters.t2i_model, options(view.t2i_models), query.get("t2i_model") ?? ALL);
  fill(filters.category, options(view.categories), query.get("category") ?? ALL);
  const why = view.compared.length < 2 ? t("Two annotators are needed.") : t("Choose two annotators at the top to see where they differ.");
  byId("confusion").replaceChildren(view.confusion === null ? element("p", { class: "muted" }, why) : confusionTable(view.confusion));
}

function showPairs(pairs) {
  byId("pairs-section").hidden = pairs.length < 2;
  byId("pairs").replaceChildren(table(
    [t("Annotators"), ...numbers.headings],
    pairs.map((pair) => ({ name: pairName(pair), cells: numbers.cells(pair) })),
  ));
}

function showWays(ways) {
  byId("ways-section").hidden = ways === null;
  if (ways === null) return;
  byId("ways-text").textContent = ways.text;
  byId("ways-caution").textContent = ways.caution;
  byId("ways").replaceChildren(table(
    [t("Labelled"), ...numbers.headings],
    ways.rounds.map((round) => ({ name: round.title, cells: numbers.cells(round) })),
  ));
}

for (const id of ["filters", "confusion-filters"]) {
  byId(id).addEventListener("submit", (event) => event.preventDefault());
  byId(id).addEventListener("change", ({ target }) => {
    if (target.name === "annotators") {
      const [first, second] = target.value === ALL ? [null, null] : JSON.parse(target.value);
      choose("first", first);
      choose("second", second);
    } else choose(target.name, target.value === ALL ? null : target.value);
    keepInAddress();
    spokenAt = -SPOKEN_EVERY;
    refresh();
  });
}

function choose(name, value) {
  if (value === null) query.delete(name);
  else query.set(name, value);
}

for (const name of [...query.keys()]) if (!PARAMETERS.includes(name)) query.delete(name);
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && refresh());
refresh();
