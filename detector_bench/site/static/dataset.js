"use strict";

/* The study's images with their labels and verdicts, as columns over images. */

detectorBenchReport.parts.dataset = (() => {
  const { columns, words } = detectorBenchReport.parts;
  const code = Object.fromEntries(words.OUTCOMES.map((outcome, position) => [outcome.value, position]));
  const NOTHING = 255;

  function build(study, images) {
    const prompt = columns.numbers(images.prompt);
    return {
      study,
      count: images.images,
      imageIds: images.image_id,
      paths: images.path,
      rowOfId: new Map(images.image_id.map((id, row) => [id, row])),
      model: columns.words(images.t2i_model),
      prompt,
      prompts: images.prompts,
      category: categories(images.prompts.category, prompt),
      seed: images.seed && columns.words(images.seed),
      labels: labelRows(images.labels),
      pictures: pictures(images.pictures),
      attributes: new Map(),
    };
  }

  function categories(ofPrompt, prompt) {
    const list = [...new Set(ofPrompt)];
    const codes = ofPrompt.map((category) => list.indexOf(category));
    return { words: list, codes: Uint32Array.from(prompt, (each) => codes[each] ?? list.length) };
  }

  function labelRows(columnsOfLabels) {
    return {
      image: columns.numbers(columnsOfLabels.image),
      ...Object.fromEntries(
        ["annotator", "attribute", "label", "reason", "value"].map((name) => [name, columns.words(columnsOfLabels[name])]),
      ),
    };
  }

  /** `state`: a position in PICTURES, beyond its end where nothing is to be said. */
  function pictures(found) {
    const problem = columns.words(found.problem);
    const changed = columns.numbers(found.changed);
    return {
      ...found,
      width: columns.numbers(found.width),
      height: columns.numbers(found.height),
      problem,
      state: Uint8Array.from(changed, (each, row) => (problem.at(row) ? 0 : each ? 1 : NOTHING)),
    };
  }

  /** One attribute's labels and verdicts. */
  function addAttribute(dataset, content) {
    const attribute = {
      name: content.name,
      classes: content.classes,
      labels: content.labels,
      truth: columns.numbers(content.truth),
      reason: columns.words(content.reason),
      annotators: columns.numbers(content.annotators),
      verdictNames: [...content.classes, ...words.VERDICTS],
      detectors: [],
    };
    for (const each of content.detectors) attribute.detectors.push(detector(each, attribute, dataset.count));
    attribute.together = together(attribute, dataset.count);
    attribute.detectorOf = new Map(attribute.detectors.map((each) => [each.name, each]));
    dataset.attributes.set(attribute.name, attribute);
  }

  function detector(content, attribute, count) {
    const verdict = columns.numbers(content.verdict);
    const reason = columns.words(content.reason);
    return {
      name: content.detector,
      verdict,
      named: content.named && columns.numbers(content.named),
      score: content.score && columns.numbers(content.score),
      value: content.value && columns.numbers(content.value),
      reason,
      reasonHead: withoutDetail(reason),
      outcome: outcomes(attribute, verdict, count),
      raw: null,
    };
  }

  /** Reasons up to the colon, after which the detail of the single image stands. */
  function withoutDetail(reason) {
    const heads = reason.words.map((text) => text.split(":", 1)[0].trim());
    const list = [...new Set(heads)];
    const position = heads.map((head) => list.indexOf(head));
    return { words: list, codes: Uint32Array.from(reason.codes, (each) => position[each] ?? list.length) };
  }

  function outcomes(attribute, verdict, count) {
    const classes = attribute.classes.length;
    const lowQuality = attribute.labels.indexOf("low_quality");
    const found = new Uint8Array(count);
    for (let row = 0; row < count; row += 1) {
      const truth = attribute.truth[row];
      const said = verdict[row];
      if (said > classes) found[row] = code.no_verdict;
      else if (truth < classes) {
        found[row] = said === classes ? code.lost : said === truth ? code.right_class : code.wrong_class;
      } else if (truth === lowQuality) found[row] = said === classes ? code.filtered_rightly : code.kept;
      else found[row] = code.not_compared;
    }
    return found;
  }

  const isRight = (outcome) => outcome === code.right_class || outcome === code.filtered_rightly;
  const isWrong = (outcome) => outcome === code.wrong_class || outcome === code.lost || outcome === code.kept;

  /** For each image: how many detectors are right and wrong, and what that comes to (a position in GROUP_OUTCOMES). */
  function together(attribute, count) {
    const right = new Uint16Array(count);
    const wrong = new Uint16Array(count);
    for (const { outcome } of attribute.detectors) {
      for (let row = 0; row < count; row += 1) {
        if (isRight(outcome[row])) right[row] += 1;
        else if (isWrong(outcome[row])) wrong[row] += 1;
      }
    }
    const group = Uint8Array.from(right, (good, row) => {
      if (!good && !wrong[row]) return NOTHING;
      return wrong[row] === 0 ? 0 : good === 0 ? 2 : 1;
    });
    return { right, wrong, group };
  }

  return { build, addAttribute, isRight, isWrong };
})();
