// The tables of the agreement page.

import { count, element, t } from "./shared.js";
import { decimals, smallScale } from "./scale.js";

const ALL = "all";
const NONE = "–";

/** "0.84 (0.78 to 0.90)", as far as there are numbers. */
export function interval({ kappa, low, high }) {
  if (kappa === null) return t("undefined");
  return low === null ? decimals(kappa) : `${decimals(kappa)} (${t("{low} to {high}", { low: decimals(low), high: decimals(high) })})`;
}

/** How an agreement is laid out in every table. */
export const numbers = {
  headings: [t("Pictures"), t("Same label"), t("Kappa"), t("95 % interval")],
  cells: (found) => [
    count(found.images),
    found.percent === null ? NONE : `${Math.round(100 * found.percent)} %`,
    found.kappa === null ? NONE : decimals(found.kappa),
    found.low === null ? NONE : t("{low} to {high}", { low: decimals(found.low), high: decimals(found.high) }),
  ],
};

/** A table whose rows have a name and cells, texts or nodes. */
export function table(headings, rows) {
  const head = element("tr", {}, ...headings.map((text) => heading(text)));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows.map(row)));
}

function heading(text) {
  return text === "" ? element("td") : element("th", { scope: "col" }, text);
}

function row({ name, cells }) {
  return element("tr", {}, element("th", { scope: "row" }, name), ...cells.map(cell));
}

function cell(content) {
  return element("td", { class: content === NONE ? "none" : null }, content);
}

export function scopesTable({ scopes }) {
  const head = element("tr", {}, element("td"), ...numbers.headings.map((text) => heading(text)), element("td", { class: "plot" }));
  const whole = element("table", {}, element("thead", {}, head));
  const groups = [
    [t("T2I model"), scopes.filter(({ t2i_model: model }) => model !== ALL), "t2i_model"],
    [t("Category"), scopes.filter(({ category }) => category !== ALL), "category"],
  ];
  for (const [title, members, key] of groups) {
    const label = element("tr", { class: "group" }, element("th", { scope: "rowgroup", colspan: "6" }, title));
    const lines = members.map((one) => {
      const line = row({ name: one[key], cells: numbers.cells(one) });
      line.append(element("td", { class: "plot" }, smallScale(one)));
      return line;
    });
    whole.append(element("tbody", {}, label, ...lines));
  }
  return whole;
}

/** Pictures by the label of one annotator (rows) and of the other (columns), with sums. */
export function confusionTable({ first, second, labels, counts }) {
  const used = labels.map((_, at) => at)
    .filter((at) => counts[at].some((number) => number > 0) || counts.some((line) => line[at] > 0));
  if (used.length === 0) return element("p", { class: "muted" }, t("There is no picture here that both labelled."));
  const most = Math.max(...counts.flat());
  const sum = (list) => list.reduce((one, other) => one + other, 0);
  const sumCell = (number) => element("td", { class: "sum" }, count(number));
  const rows = used.map((at) => element("tr", {},
    element("th", { scope: "row" }, labels[at]),
    ...used.map((other) => countCell(counts[at][other], { isSame: at === other, most })),
    sumCell(sum(counts[at]))));
  const sums = element("tr", {}, element("th", { scope: "row" }, t("Sum")),
    ...used.map((at) => sumCell(sum(counts.map((line) => line[at])))), sumCell(sum(counts.flat())));
  return element("table", { class: "confusion" },
    element("caption", {}, t("Rows: {first}. Columns: {second}. On the diagonal they gave the same label.", { first, second })),
    element("thead", {}, element("tr", {}, element("td"),
      ...used.map((at) => element("th", { scope: "col" }, labels[at])), element("th", { scope: "col" }, t("Sum")))),
    element("tbody", {}, ...rows, sums));
}

function countCell(number, { isSame, most }) {
  const made = element("td", { class: `${isSame ? "same" : "other"}${number === 0 ? " zero" : ""}` }, count(number));
  made.style.setProperty("--share", `${number === 0 ? 0 : Math.round(30 + (70 * number) / most)}%`);
  return made;
}
