"use strict";

/* Tables that can be sorted by any column, with the mouse or the keyboard. Without scripts they are plain tables. */

(() => {
  const NUMBER_FIRST = "descending";
  const WORD_FIRST = "ascending";

  for (const table of document.querySelectorAll("table.sortable")) {
    const headings = table.tHead.rows[table.tHead.rows.length - 1].cells;
    [...headings].forEach((heading, column) => {
      if (heading.textContent.trim()) makeSortable(table, heading, column);
    });
  }

  function makeSortable(table, heading, column) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sorter";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => sort(table, heading, column));
  }

  function sort(table, heading, column) {
    const rows = [...table.tBodies[0].rows];
    const numeric = rows.some((row) => row.cells[column].dataset.value !== undefined);
    const before = heading.getAttribute("aria-sort");
    const first = numeric ? NUMBER_FIRST : WORD_FIRST;
    const direction = before === "ascending" ? "descending" : before === "descending" ? "ascending" : first;
    for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    const compare = numeric ? compareNumbers : compareWords;
    const isTotal = (row) => Number(row.classList.contains("total"));
    rows.sort((one, other) => isTotal(one) - isTotal(other) || compare(one.cells[column], other.cells[column], sign));
    table.tBodies[0].append(...rows);
  }

  /** Cells without a number come last in either direction. */
  function compareNumbers(one, other, sign) {
    const [first, second] = [one, other].map((cell) => (cell.dataset.value ? Number(cell.dataset.value) : NaN));
    if (Number.isNaN(first) || Number.isNaN(second)) return Number(Number.isNaN(first)) - Number(Number.isNaN(second));
    return sign * (first - second);
  }

  function compareWords(one, other, sign) {
    return sign * one.textContent.trim().localeCompare(other.textContent.trim(), "en", { numeric: true });
  }
})();
