// This browser's key, which is one half of its login. The cookie is the other
// half: a browser sends it to every port of the host, but without the key it is
// worthless. Only pages of this origin can read the key, and it is sent only to
// the server.

import { base } from "./base";

export interface Login {
  id: string; // id of the credential
  key: string;
  proofKey: string; // key with which the server proves its identity, in hexadecimal
}

// Two servers below paths of one host have the same storage.
const keyName = `runnel${base}.key`;
const proofName = `runnel${base}.proof`; // stores id and key of the proof

let mine: Login | undefined; // fallback without storage, until the page is closed

/**
 * Reads the login from storage each time, because another tab may have logged
 * in since.
 */
export function login(): Login | undefined {
  try {
    const key = localStorage.getItem(keyName);
    const [id, proofKey] = localStorage.getItem(proofName)?.split(" ") ?? [];
    return key && id && proofKey ? { id, key, proofKey } : mine;
  } catch {
    return mine;
  }
}

export function keepLogin(login: Login) {
  mine = login;
  try {
    localStorage.setItem(proofName, `${login.id} ${login.proofKey}`);
    localStorage.setItem(keyName, login.key);
  } catch {
    // only this tab knows the login
  }
}

const arrival = 500; // ms; how long the key of another tab's login may take to arrive

/**
 * Resolves to true once this browser's key differs from `old`, and to false if
 * that does not happen within 500 ms.
 */
export function keyChanges(old: string): Promise<boolean> {
  const changed = () => login()?.key !== old;
  if (changed()) return Promise.resolve(true);
  return new Promise((resolve) => {
    const end = () => {
      removeEventListener("storage", look);
      clearTimeout(timer);
      resolve(changed());
    };
    const look = () => changed() && end();
    const timer = setTimeout(end, arrival);
    addEventListener("storage", look);
  });
}
