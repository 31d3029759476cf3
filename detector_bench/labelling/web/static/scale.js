// Kappa with its interval on the scale from 0 to 1, as a drawing.

const SVG = "http://www.w3.org/2000/svg";
const LOWEST = -0.1; // below, everything lies at the edge

function shape(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  if (text !== undefined) made.textContent = text;
  return made;
}

/** A kappa with two decimals, and a true minus sign. */
export function decimals(value) {
  const text = inLanguage(Math.abs(value));
  return value < 0 && text !== inLanguage(0) ? `−${text}` : text;
}

function inLanguage(value) {
  const language = document.documentElement.lang || "en";
  return value.toLocaleString(language, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
}

/** The scale with its grades; `found` has `kappa`, `low`, `high`, each perhaps null. */
export function gradedScale(found, grades, { label }) {
  const width = 560;
  const x = placeIn(width, 12);
  const svg = shape("svg", { class: "scale", viewBox: `0 0 ${width} 118`, role: "img", "aria-label": label });
  const top = 48;
  const steps = grades.slice(1).map(({ up_to: to, name }, index) => ({ from: grades[index].up_to, to, name }));
  for (const { from, to, name } of steps) {
    const isReached = found.low !== null && found.high > from && found.low <= to;
    svg.append(shape("rect", { class: isReached ? "band reached" : "band", x: x(from), y: top, width: x(to) - x(from), height: 28 }));
    const middle = (x(from) + x(to)) / 2;
    name.split(" ").forEach((word, line) => svg.append(shape("text", { x: middle, y: top + 44 + 14 * line }, word)));
    svg.append(shape("text", { x: x(from), y: top - 6 }, decimals(from)));
  }
  svg.append(shape("text", { x: x(1), y: top - 6 }, "1"));
  mark(svg, found, x, { y: top + 14, radius: 8 });
  if (found.kappa !== null) {
    const at = Math.min(width - 60, Math.max(60, x(found.kappa)));
    svg.append(shape("text", { class: "value", x: at, y: 22 }, `κ ${decimals(found.kappa)}`));
  }
  return svg;
}

/** A small scale for a table's row; the row says the numbers, so it is hidden from screen readers. */
export function smallScale(found) {
  const width = 260;
  const x = placeIn(width, 8);
  const svg = shape("svg", { class: "scale", viewBox: `0 0 ${width} 20`, "aria-hidden": "true", preserveAspectRatio: "xMidYMid meet" });
  svg.append(shape("rect", { class: "band", x: x(0), y: 7, width: x(1) - x(0), height: 6 }));
  mark(svg, found, x, { y: 10, radius: 5 });
  return svg;
}

function placeIn(width, margin) {
  return (value) => margin + ((Math.max(LOWEST, value) - LOWEST) / (1 - LOWEST)) * (width - 2 * margin);
}

function mark(svg, found, x, { y, radius }) {
  if (found.kappa === null) return;
  if (found.low !== null) svg.append(shape("line", { class: "reach", x1: x(found.low), x2: x(found.high), y1: y, y2: y }));
  svg.append(shape("circle", { class: "point", cx: x(found.kappa), cy: y, r: radius }));
}
