"use strict";

/* What is chosen, as text after the # of the address: it can be sent to somebody, and back and forward work. */

detectorBenchReport.parts.state = (() => {
  const SINGLE = ["attribute", "detector", "sort", "search", "image"];
  const SORTS = ["order", "wrong", "score_high", "score_low"];

  /** A state without any choice; `filters` maps a filter's name to its values. */
  const empty = () => ({ attribute: "", detector: "", sort: "order", search: "", image: "", filters: new Map() });

  function parse(hash) {
    const state = empty();
    for (const [name, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
      if (SINGLE.includes(name)) state[name] = value;
      else if (value) state.filters.set(name, (state.filters.get(name) ?? new Set()).add(value));
    }
    if (!SORTS.includes(state.sort)) state.sort = "order";
    return state;
  }

  function toHash(state) {
    const pairs = new URLSearchParams();
    for (const name of ["attribute", "detector"]) if (state[name]) pairs.append(name, state[name]);
    for (const name of [...state.filters.keys()].sort()) {
      for (const value of state.filters.get(name)) pairs.append(name, value);
    }
    if (state.sort !== "order") pairs.append("sort", state.sort);
    for (const name of ["search", "image"]) if (state[name]) pairs.append(name, state[name]);
    // URLSearchParams writes a blank as +, which some programs take for a plus sign in the part after the #.
    return `#${pairs.toString().replaceAll("+", "%20")}`;
  }

  /** The same state with some parts replaced. */
  const changed = (state, parts) => ({ ...state, filters: new Map(state.filters), ...parts });

  /** The same state with one value of a filter switched on or off. */
  function toggled(state, name, value) {
    const next = changed(state, { image: "" });
    const values = new Set(next.filters.get(name));
    if (!values.delete(value)) values.add(value);
    if (values.size) next.filters.set(name, values);
    else next.filters.delete(name);
    return next;
  }

  /** The same state with a filter set to exactly these values. */
  function withFilter(state, name, values) {
    const next = changed(state, { image: "" });
    if (values.length) next.filters.set(name, new Set(values));
    else next.filters.delete(name);
    return next;
  }

  return { empty, parse, toHash, changed, toggled, withFilter };
})();
