"use strict";

/* Builds elements. Text is only ever set as text: nothing that a study holds is read as HTML. */

detectorBenchReport.parts.dom = (() => {
  const SVG = "http://www.w3.org/2000/svg";

  /** An element with properties, attributes (names with - or of SVG), listeners (on...) and children. */
  function element(tag, settings = {}, ...children) {
    return filled(document.createElement(tag), settings, children);
  }

  function drawing(tag, settings = {}, ...children) {
    return filled(document.createElementNS(SVG, tag), settings, children);
  }

  function filled(node, settings, children) {
    for (const [name, value] of Object.entries(settings)) {
      if (value === undefined || value === null) continue;
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (name === "class") node.setAttribute("class", value);
      else if (name === "data") Object.assign(node.dataset, value);
      else if (name in node && node.namespaceURI !== SVG && !name.includes("-")) node[name] = value;
      else node.setAttribute(name, value);
    }
    node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== "" && child !== false));
    return node;
  }

  return { element, drawing };
})();
