"use strict";

/* Which images pass the chosen filters, and how many more each choice would show. Pure functions of columns. */

detectorBenchReport.parts.filtering = (() => {
  const { words } = detectorBenchReport.parts;
  const MOST_BITS = 31;
  const RIGHT = new Set(["right_class", "filtered_rightly"]);
  const WRONG = new Set(["wrong_class", "lost", "kept"]);

  /** A facet: a column of codes with the value that each code stands for. */
  const facet = (name, heading, values, codes) => ({ name, heading, values, codes });

  const plain = (list) => list.map((word) => ({ value: word, name: word || "(none)" }));
  const readable = (list) => list.map((word) => ({ value: word, name: words.inWords(word) }));

  /** All facets of one attribute, in the order of the panel; those of single detectors come last. */
  function facets(dataset, attribute) {
    const { prompts } = dataset;
    const prompt = prompts.prompt_id.map((id, row) => ({ value: id, name: prompts.word[row] || id }));
    const common = [
      facet("truth", "Human label", readable(attribute.labels), attribute.truth),
      facet("reason", "Human reason", readable(attribute.reason.words), attribute.reason.codes),
      facet("model", "T2I model", plain(dataset.model.words), dataset.model.codes),
      facet("category", "Category of prompts", plain(dataset.category.words), dataset.category.codes),
      facet("prompt", "Prompt", prompt, dataset.prompt),
      facet("detectors", "All detectors together", words.GROUP_OUTCOMES, attribute.together.group),
      facet("annotators", "Annotators", words.ANNOTATORS, attribute.annotators),
      facet("picture", "Picture", words.PICTURES, dataset.pictures.state),
    ];
    return new Map([...common, ...attribute.detectors.flatMap((each) => ofDetector(each, attribute))]
      .map((each) => [each.name, each]));
  }

  function ofDetector(detector, attribute) {
    return [
      facet(`verdict.${detector.name}`, "Verdict", readable(attribute.verdictNames), detector.verdict),
      facet(`outcome.${detector.name}`, "Against the human label", words.OUTCOMES, detector.outcome),
      facet(`reason.${detector.name}`, "Its reason", readable(detector.reasonHead.words), detector.reasonHead.codes),
    ];
  }

  /** The chosen filters as tests, each with a bit of its own. Values that the study does not have match nothing. */
  function tests(state, all, attribute, searchMask) {
    const found = [];
    const add = (name, codes, allowed) => {
      // Beyond 31 filters the last ones share a bit: results stay right, only their own counts get too small.
      found.push({ name, codes, allowed, bit: 1 << Math.min(found.length, MOST_BITS) });
    };
    for (const [name, values] of state.filters) {
      const outcomes = name === "right" ? RIGHT : name === "wrong" ? WRONG : null;
      if (outcomes) {
        for (const value of values) {
          const detector = attribute.detectorOf.get(value);
          if (detector) add(name, detector.outcome, words.OUTCOMES.map((each) => outcomes.has(each.value)));
        }
      } else if (all.has(name)) {
        add(name, all.get(name).codes, all.get(name).values.map((each) => values.has(each.value)));
      }
    }
    if (searchMask) add("search", searchMask, [false, true]);
    return found;
  }

  /** For each image the bits of the tests that it fails. */
  function failures(chosen, count) {
    const failing = new Uint32Array(count);
    for (const { codes, allowed, bit } of chosen) {
      const passes = Uint8Array.from(allowed, Number);
      const known = passes.length;
      for (let row = 0; row < count; row += 1) {
        const code = codes[row];
        if (code >= known || passes[code] === 0) failing[row] |= bit;
      }
    }
    return failing;
  }

  /** Rows that fail nothing, in their order. */
  function passing(failing) {
    const rows = new Uint32Array(failing.length);
    let length = 0;
    for (let row = 0; row < failing.length; row += 1) {
      if (failing[row] === 0) {
        rows[length] = row;
        length += 1;
      }
    }
    return rows.subarray(0, length);
  }

  const bitsOf = (chosen, names) =>
    chosen.reduce((bits, each) => (names.includes(each.name) ? bits | each.bit : bits), 0);

  /** How many images have each value of a facet, as if that facet had no filter. */
  function counts(each, chosen, failing) {
    const others = ~bitsOf(chosen, [each.name]);
    const found = new Uint32Array(each.values.length);
    for (let row = 0; row < failing.length; row += 1) {
      if ((failing[row] & others) === 0 && each.codes[row] < found.length) found[each.codes[row]] += 1;
    }
    return found;
  }

  /** Images by human label and verdict, as if neither had a filter: `[truth * verdicts + verdict]`. */
  function confusion(truth, verdict, chosen, failing) {
    const others = ~bitsOf(chosen, [truth.name, verdict.name]);
    const width = verdict.values.length;
    const found = new Uint32Array(truth.values.length * width);
    for (let row = 0; row < failing.length; row += 1) {
      if ((failing[row] & others) === 0 && truth.codes[row] < truth.values.length && verdict.codes[row] < width) {
        found[truth.codes[row] * width + verdict.codes[row]] += 1;
      }
    }
    return found;
  }

  /** Order rows; images without a score come last. */
  function sorted(rows, state, attribute) {
    if (state.sort === "order") return rows;
    const detector = attribute.detectorOf.get(state.detector);
    let key = (row) => -attribute.together.wrong[row];
    if (state.sort !== "wrong") {
      if (!detector?.score) return rows;
      const sign = state.sort === "score_high" ? -1 : 1;
      key = (row) => (Number.isNaN(detector.score[row]) ? Infinity : sign * detector.score[row]);
    }
    const keys = Float64Array.from(rows, key);
    const order = Uint32Array.from(rows, (_, position) => position);
    order.sort((one, other) => (keys[one] === keys[other] ? one - other : keys[one] < keys[other] ? -1 : 1));
    return order.map((position) => rows[position]);
  }

  return { facets, tests, failures, passing, counts, confusion, sorted };
})();
