"use strict";

/* The grid of images: only cells that can be seen, and a few around them, are in the document. */

detectorBenchReport.parts.grid = (() => {
  const { dom, pictures, words } = detectorBenchReport.parts;
  const ROWS_AHEAD = 1;
  const MOST_MARKS = 16;

  class Grid {
    constructor(container, open) {
      this.container = container;
      this.open = open;
      this.list = dom.element("div", { class: "cells", role: "list", "aria-label": "Images" });
      this.cells = new Map();
      this.rows = new Uint32Array(0);
      this.current = 0;
      // Kept here, because to ask the container would lay the page out.
      this.top = 0;
      container.replaceChildren(this.list);
      container.addEventListener("scroll", () => this.onScroll(), { passive: true });
      this.list.addEventListener("keydown", (event) => this.onKey(event));
      new ResizeObserver(() => this.measure()).observe(container);
    }

    /** Show other images, or the same ones with another detector's verdicts. */
    show(dataset, attribute, detector, rows, { fromTop }) {
      Object.assign(this, { dataset, attribute, detector, rows });
      this.current = Math.min(this.current, Math.max(0, rows.length - 1));
      if (fromTop) {
        this.current = 0;
        this.scrollTo(0);
      }
      this.forgetCells();
      if (this.columns) this.layOut();
      else this.measure();
    }

    onScroll() {
      this.top = this.container.scrollTop;
      this.draw();
    }

    scrollTo(top) {
      if (this.top !== top) this.container.scrollTop = top;
      this.top = top;
    }

    forgetCells() {
      for (const cell of this.cells.values()) cell.remove();
      this.cells.clear();
    }

    measure() {
      const style = getComputedStyle(this.container);
      const inner = this.container.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
      const least = parseFloat(style.getPropertyValue("--cell-width"));
      this.columns = Math.max(1, Math.floor(inner / least));
      this.cellWidth = inner / this.columns;
      this.cellHeight = parseFloat(style.getPropertyValue("--cell-height"));
      this.height = this.container.clientHeight;
      for (const [position, cell] of this.cells) this.place(cell, position);
      this.layOut();
    }

    layOut() {
      this.list.style.height = `${Math.ceil(this.rows.length / this.columns) * this.cellHeight}px`;
      this.draw();
    }

    /** Add the cells that came into sight, and remove those that went out of it. */
    draw() {
      if (!this.dataset) return;
      const top = Math.floor(this.top / this.cellHeight) - ROWS_AHEAD;
      const high = Math.ceil(this.height / this.cellHeight) + 2 * ROWS_AHEAD;
      const first = Math.max(0, top) * this.columns;
      const last = Math.min(this.rows.length, Math.max(0, top + high) * this.columns);
      for (const [position, cell] of this.cells) {
        const isSeen = position >= first && position < last;
        if (!isSeen && !cell.contains(document.activeElement)) {
          cell.remove();
          this.cells.delete(position);
        }
      }
      const added = [];
      for (let position = first; position < last; position += 1) {
        if (!this.cells.has(position)) added.push(this.makeCell(position));
      }
      this.list.append(...added);
    }

    makeCell(position) {
      const row = this.rows[position];
      const card = this.card(row, position);
      const cell = dom.element(
        "div",
        { class: "cell", role: "listitem", "aria-setsize": this.rows.length, "aria-posinset": position + 1 },
        card,
      );
      this.place(cell, position);
      this.cells.set(position, cell);
      return cell;
    }

    place(cell, position) {
      const left = (position % this.columns) * this.cellWidth;
      const top = Math.floor(position / this.columns) * this.cellHeight;
      cell.style.width = `${this.cellWidth}px`;
      cell.style.transform = `translate(${left}px, ${top}px)`;
    }

    card(row, position) {
      const { dataset, attribute, detector } = this;
      const human = words.inWords(attribute.labels[attribute.truth[row]] ?? "no label");
      const outcome = detector && words.OUTCOMES[detector.outcome[row]];
      const [verdict, score] = detector ? this.said(detector, row) : ["", ""];
      const spoken = [
        `Image ${dataset.imageIds[row]}`,
        `human: ${human}`,
        ...(detector ? [`${detector.name}: ${verdict} ${score}, ${outcome.name.toLowerCase()}`] : []),
        this.summary(row),
      ];
      return dom.element(
        "button",
        {
          type: "button",
          class: `card tone-${outcome?.tone ?? "none"}`,
          tabIndex: position === this.current ? 0 : -1,
          "aria-label": spoken.join("; "),
          data: { row, image: dataset.imageIds[row] },
          onclick: () => {
            this.moveTo(position, { focus: false });
            this.open(row);
          },
        },
        dom.element("span", { class: "thumbnail" }, pictures.picture(dataset, row, "small", "")),
        dom.element("span", { class: "line" }, dom.element("span", { class: "who" }, "Human"), human),
        detector &&
          dom.element(
            "span",
            { class: "line said", title: `${detector.name}: ${outcome.name}` },
            dom.element("span", { class: "who" }, "Verdict"),
            dom.element("span", { class: `mark ${outcome.tone}` }, outcome.mark),
            dom.element("span", { class: "verdict" }, verdict),
            dom.element("span", { class: "score" }, score),
          ),
        this.marks(row),
      );
    }

    said(detector, row) {
      const verdict = words.inWords(this.attribute.verdictNames[detector.verdict[row]] ?? "not run");
      return [verdict, detector.score ? words.decimals(detector.score[row], 2) : ""];
    }

    summary(row) {
      const { right, wrong } = this.attribute.together;
      return `${right[row]} of ${right[row] + wrong[row]} detectors are right`;
    }

    /** A mark for each detector, in the study's order. */
    marks(row) {
      const { detectors } = this.attribute;
      if (detectors.length < 2 || detectors.length > MOST_MARKS) {
        return dom.element("span", { class: "line muted" }, detectors.length > 1 ? this.summary(row) : "");
      }
      const marks = detectors.map((each) => {
        const outcome = words.OUTCOMES[each.outcome[row]];
        const current = each === this.detector ? " current" : "";
        return dom.element(
          "span",
          { class: `mark ${outcome.tone}${current}`, title: `${each.name}: ${outcome.name}` },
          outcome.mark,
        );
      });
      return dom.element("span", { class: "marks" }, marks);
    }

    onKey(event) {
      const page = this.columns * Math.max(1, Math.floor(this.height / this.cellHeight));
      const steps = {
        ArrowRight: 1,
        ArrowLeft: -1,
        ArrowDown: this.columns,
        ArrowUp: -this.columns,
        PageDown: page,
        PageUp: -page,
        Home: -this.rows.length,
        End: this.rows.length,
      };
      if (!(event.key in steps) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      this.moveTo(Math.min(this.rows.length - 1, Math.max(0, this.current + steps[event.key])), { focus: true });
    }

    /** Make a cell the one that Tab leads to, and bring it into sight. */
    moveTo(position, { focus }) {
      if (position < 0 || position >= this.rows.length) return;
      this.cardAt(this.current)?.setAttribute("tabindex", "-1");
      this.current = position;
      const top = Math.floor(position / this.columns) * this.cellHeight;
      const bottom = top + this.cellHeight;
      if (top < this.top) this.scrollTo(top);
      if (bottom > this.top + this.height) this.scrollTo(bottom - this.height);
      this.draw();
      const card = this.cardAt(position);
      card?.setAttribute("tabindex", "0");
      if (focus) card?.focus({ preventScroll: true });
    }

    cardAt(position) {
      return this.cells.get(position)?.firstElementChild;
    }

    positionOf(row) {
      return this.rows.indexOf(row);
    }
  }

  return { Grid };
})();
