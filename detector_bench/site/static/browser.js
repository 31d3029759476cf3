"use strict";

/* The page of images: the address says what is chosen, everything else follows from it. */

(() => {
  const report = detectorBenchReport;
  const { boxes, columns, dataset: datasets, detail, filtering, grid, panel, searching, state: states, toolbar } = report.parts;
  const TYPING_PAUSE = 120;

  const dataset = datasets.build(report.get("study"), report.get("images"));
  for (const name of dataset.study.attributes) datasets.addAttribute(dataset, report.get(`attribute-${name}`));

  const element = (id) => document.getElementById(id);
  const filters = new panel.Panel(element("filters"), dataset, choose);
  const tools = new toolbar.Toolbar(element("toolbar"), choose);
  const cells = new grid.Grid(element("grid"), (row) => openImage(row));
  const dialog = new detail.Detail(element("detail"), { go, closed: closeImage });

  let state = states.empty();
  let shown = { key: "", rows: new Uint32Array(0) };
  let openedHere = false;
  let typing = 0;

  /** Go to a state; a soft change (typing) waits for a pause, and takes the place of the last entry of the history. */
  function choose(next, { soft = false } = {}) {
    clearTimeout(typing);
    if (soft) typing = setTimeout(() => arrive(next, { replace: true }), TYPING_PAUSE);
    else arrive(next, { replace: false });
  }

  function arrive(next, { replace }) {
    const hash = states.toHash(completed(next));
    if (hash === location.hash) return;
    performance.mark("choice");
    apply(states.parse(hash));
    // Unlike an assignment to the address, these look for no place to scroll to, which would lay the page out.
    if (replace) history.replaceState(null, "", hash);
    else history.pushState(null, "", hash);
  }

  /** The state with an attribute and a detector that the study has. */
  function completed(next) {
    const attribute = dataset.attributes.get(next.attribute) ?? dataset.attributes.values().next().value;
    const detector = attribute.detectorOf.get(next.detector) ?? attribute.detectors[0];
    return states.changed(next, { attribute: attribute.name, detector: detector?.name ?? "" });
  }

  function apply(next) {
    const before = state;
    state = completed(next);
    const attribute = dataset.attributes.get(state.attribute);
    attribute.facets ??= filtering.facets(dataset, attribute);
    const all = attribute.facets;
    if (filters.built !== `${attribute.name} ${state.detector}`) {
      filters.build(attribute, all, state);
      tools.build(attribute);
    }
    const key = states.toHash(states.changed(state, { image: "" }));
    if (key !== shown.key) {
      const mask = searching.search(state.search, dataset, attribute);
      const chosen = filtering.tests(state, all, attribute, mask);
      const failing = filtering.failures(chosen, dataset.count);
      const rows = filtering.sorted(filtering.passing(failing), state, attribute);
      const sameImages = before.attribute === state.attribute && sameRows(rows, shown.rows);
      shown = { key, rows };
      filters.update(state, chosen, failing);
      const text = tools.update(state, all, rows.length, dataset.count);
      element("announcement").textContent = text;
      cells.show(dataset, attribute, attribute.detectorOf.get(state.detector), rows, { fromTop: !sameImages });
      showEmptiness(rows.length === 0);
      measureResponse();
    }
    filters.state = state;
    tools.state = state;
    showImage(attribute);
  }

  /** From a choice to the finished page, for the benchmark. */
  function measureResponse() {
    if (!performance.getEntriesByName("choice").length) return;
    performance.measure("filter", "choice");
    performance.clearMarks("choice");
  }

  function sameRows(rows, others) {
    return rows.length === others.length && rows.every((row, position) => row === others[position]);
  }

  function showEmptiness(isEmpty) {
    element("nothing").hidden = !isEmpty;
  }

  function showImage(attribute) {
    const row = dataset.rowOfId.get(state.image);
    if (row === undefined) {
      if (element("detail").open) element("detail").close();
      return;
    }
    dialog.show(dataset, attribute, row, { position: cells.positionOf(row), total: shown.rows.length });
  }

  function openImage(row) {
    openedHere = true;
    choose(states.changed(state, { image: dataset.imageIds[row] }));
  }

  function closeImage() {
    if (!state.image) return;
    const position = cells.positionOf(dataset.rowOfId.get(state.image));
    if (openedHere) history.back();
    else arrive(states.changed(state, { image: "" }), { replace: true });
    openedHere = false;
    state = states.changed(state, { image: "" });
    cells.moveTo(position, { focus: true });
  }

  function go(step) {
    const position = cells.positionOf(dataset.rowOfId.get(state.image)) + step;
    if (position < 0 || position >= shown.rows.length) return;
    const next = states.changed(state, { image: dataset.imageIds[shown.rows[position]] });
    arrive(next, { replace: true });
  }

  addEventListener("hashchange", () => {
    if (location.hash !== states.toHash(state)) apply(states.parse(location.hash));
  });

  addEventListener("keydown", (event) => {
    if (event.key === "Escape") document.body.classList.remove("filters-open");
  });

  apply(states.parse(location.hash));
  performance.mark("interactive");

  // What only the detail view and the text search need comes last.
  report.whenAdded("boxes", (content) => {
    dataset.boxes = boxes.read(content);
    refreshImage();
  });
  report.whenAdded("answers", (content) => {
    for (const { attribute, detector, raw } of content.answers) {
      dataset.attributes.get(attribute).detectorOf.get(detector).raw = columns.words(raw);
    }
    refreshImage();
  });

  function refreshImage() {
    if (state.search) shown = { ...shown, key: "" };
    if (state.image || state.search) apply(state);
  }
})();
