// Simple Markdown as DOM nodes: headings, paragraphs, lists, tables, bold, italics, code. Never HTML, never links.

import { element, t } from "./shared.js";

const INLINE = /(`[^`]+`)|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|\b_([^_]+)_\b|\[([^\]]+)\]\([^)]*\)/gu;

/** The nodes for a text in simple Markdown; what is not understood stands there as it was written. */
export function renderMarkdown(text, { topLevel = 2 } = {}) {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const nodes = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    const heading = /^(#{1,6})\s+(.*?)\s*#*$/u.exec(line);
    if (line.trim() === "") {
      at += 1;
    } else if (heading) {
      const level = Math.min(6, heading[1].length - 1 + topLevel);
      nodes.push(element(`h${level}`, {}, ...inline(heading[2])));
      at += 1;
    } else {
      const block = [table, list, quote, code, paragraph].map((read) => read(lines, at)).find((read) => read !== null);
      nodes.push(block.node);
      at = block.next;
    }
  }
  return nodes;
}

function inline(text) {
  const nodes = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    nodes.push(text.slice(from, match.index));
    const [whole, code, bold, italic, underscored, label] = match;
    if (code) nodes.push(element("code", {}, code.slice(1, -1)));
    else if (bold) nodes.push(element("strong", {}, ...inline(bold)));
    else if (italic ?? underscored) nodes.push(element("em", {}, ...inline(italic ?? underscored)));
    else nodes.push(...inline(label));
    from = match.index + whole.length;
  }
  nodes.push(text.slice(from));
  return nodes.filter((node) => node !== "");
}

const cells = (line) => line.trim().replace(/^\||\|$/gu, "").split("|").map((cell) => cell.trim());

function table(lines, at) {
  if (!lines[at].includes("|") || !/^[\s|:-]*-[\s|:-]*$/u.test(lines[at + 1] ?? "")) return null;
  const head = element("tr", {}, ...cells(lines[at]).map((cell) => element("th", { scope: "col" }, ...inline(cell))));
  const body = element("tbody");
  let next = at + 2;
  for (; next < lines.length && lines[next].includes("|"); next += 1) {
    body.append(element("tr", {}, ...cells(lines[next]).map((cell) => element("td", {}, ...inline(cell)))));
  }
  const whole = element("table", {}, element("thead", {}, head), body);
  return { node: element("div", { class: "wide", tabindex: "0", role: "group", "aria-label": t("Table") }, whole), next };
}

const BULLET = /^\s*[-*+]\s+(.*)$/u;
const NUMBER = /^\s*\d+[.)]\s+(.*)$/u;

function list(lines, at) {
  const marker = BULLET.test(lines[at]) ? BULLET : NUMBER.test(lines[at]) ? NUMBER : null;
  if (marker === null) return null;
  const entries = [];
  let next = at;
  for (; next < lines.length && lines[next].trim() !== ""; next += 1) {
    const entry = marker.exec(lines[next]);
    if (entry) entries.push(entry[1]);
    else if (/^\s/u.test(lines[next])) entries.push(`${entries.pop()} ${lines[next].trim()}`);
    else break;
  }
  const items = entries.map((entry) => element("li", {}, ...inline(entry)));
  return { node: element(marker === BULLET ? "ul" : "ol", {}, ...items), next };
}

function quote(lines, at) {
  if (!lines[at].startsWith(">")) return null;
  let next = at;
  while (next < lines.length && lines[next].startsWith(">")) next += 1;
  const text = lines.slice(at, next).map((line) => line.replace(/^>\s?/u, "")).join("\n");
  return { node: element("blockquote", {}, ...renderMarkdown(text, { topLevel: 3 })), next };
}

function code(lines, at) {
  if (!lines[at].startsWith("```")) return null;
  let next = at + 1;
  while (next < lines.length && !lines[next].startsWith("```")) next += 1;
  return { node: element("pre", {}, element("code", {}, lines.slice(at + 1, next).join("\n"))), next: next + 1 };
}

function paragraph(lines, at) {
  let next = at + 1;
  while (next < lines.length && lines[next].trim() !== "" && !/^(#{1,6}\s|>|```)/u.test(lines[next])
    && !BULLET.test(lines[next]) && !NUMBER.test(lines[next])) next += 1;
  const text = lines.slice(at, next).map((line) => line.trim()).join(" ");
  return { node: element("p", {}, ...inline(text)), next };
}
