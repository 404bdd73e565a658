// The page's part of this browser's login. The cookie is the other half of the
// credential: a browser sends it to every port of the host, and it is worth
// nothing without the key, which only pages of this origin can read and which
// goes nowhere else.

export interface Login {
  id: string; // of the credential
  key: string;
  proofKey: string; // with which the server proves who it is, in hexadecimal
}

const keyName = "runnel.key";
const proofName = "runnel.proof"; // id and key of the proof

let mine: Login | undefined; // where nothing can be stored: until the page is left

/** Read anew each time: another tab may have logged in since. */
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
    // then it is known to this tab alone
  }
}
