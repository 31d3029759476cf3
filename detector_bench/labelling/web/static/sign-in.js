// Takes the token out of the link. It stands behind "#", which browsers keep to themselves: no log ever holds it.

import { ask, byId } from "./shared.js";

const tokenIn = (text) => text.trim().replace(/^.*#token=/u, "");

async function signIn(token) {
  const { page } = await ask("/api/sign-in", { send: { token } });
  const isAsked = location.pathname !== "/" && !location.pathname.startsWith("/label/");
  location.replace(isAsked ? location.pathname : page);
}

async function start() {
  const token = location.hash.startsWith("#token=") ? tokenIn(location.hash) : "";
  history.replaceState(null, "", location.pathname);
  try {
    if (token !== "") {
      await signIn(token);
      return;
    }
    // Following a link from another site, a browser leaves the cookie out. Reloaded from here, the page gets it.
    const { pages } = await ask("/api/desk");
    if (pages.includes(location.pathname)) {
      location.reload();
      return;
    }
  } catch (error) {
    if (token !== "" || error.status === 0) byId("problem").textContent = error.message;
  }
  byId("sign-in").hidden = false;
  byId("token").focus();
}

byId("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  signIn(tokenIn(byId("token").value)).catch((error) => { byId("problem").textContent = error.message; });
});

start();
