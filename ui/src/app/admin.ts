import { useEffect, useState } from "react";
import { api } from "../wire/http";

let known: boolean | undefined; // a login keeps its scopes

/** Whether this browser's login may read the audit log; false until the server has answered. */
export function useAdmin(): boolean {
  const [is, setIs] = useState(known ?? false);
  useEffect(() => {
    if (known !== undefined) return;
    api.isAdmin().then(
      (admin) => {
        known = admin;
        setIs(admin);
      },
      () => {}, // the next dialog asks again
    );
  }, []);
  return is;
}
