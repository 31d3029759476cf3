// The first page where several people label: everybody takes their own name.

import { ask, byId, element } from "./shared.js";

try {
  const desk = await ask("/api/desk");
  byId("annotators").replaceChildren(...desk.annotators.map(({ name, page }) => element("a", { class: "button", href: page }, name)));
  byId("review").hidden = !desk.may_review;
} catch (error) {
  byId("annotators").replaceChildren(element("p", {}, error.message));
}
