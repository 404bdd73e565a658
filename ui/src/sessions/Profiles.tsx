import { useEffect, useId, useState } from "react";
import { Choose } from "../app/Choose";
import { plain } from "../text/visible";
import { api } from "../wire/http";
import type { Profile } from "../wire/types";

const pause = 300; // ms without typing before the folder's profiles are loaded

/**
 * The profiles for sessions in a folder, once they are wanted. If the folder
 * cannot be read, only the profiles for all folders.
 */
export function useProfiles(dir: string, wanted: boolean): readonly Profile[] {
  const [profiles, setProfiles] = useState<readonly Profile[]>([]);
  useEffect(() => {
    if (!wanted) return;
    let current = true;
    const read = async () => {
      const list = await api.profiles(dir).catch(() => api.profiles("").catch(() => []));
      if (current) setProfiles(list);
    };
    const timer = setTimeout(() => void read(), pause);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [dir, wanted]);
  return profiles;
}

/**
 * Selects a profile, if there are any, and shows the errors of invalid ones.
 */
export function ProfileField({
  profiles,
  value,
  onChange,
}: {
  profiles: readonly Profile[];
  value: string;
  onChange: (name: string) => void;
}) {
  const id = useId();
  if (profiles.length === 0) return null;
  const usable = profiles.filter((p) => p.error === undefined);
  const broken = profiles.filter((p) => p.error !== undefined);
  const preset = usable.find((p) => p.default);
  const about = usable.find((p) => p.name === (value || preset?.name))?.description;
  return (
    <div className="mb-4">
      <label htmlFor={id} className="mb-1 block text-sm">
        Profile
      </label>
      <Choose
        id={id}
        label="Profile"
        value={value}
        none={preset ? `${preset.name} (default)` : "None"}
        choices={usable
          .filter((p) => p !== preset)
          .map((p) => ({ value: p.name, name: p.project ? `${p.name} (this project)` : p.name }))}
        onChange={onChange}
        describedBy={`${id}about`}
      />
      <div id={`${id}about`} className="mt-1 text-sm text-muted">
        {about && (
          <p dir="auto" className="isolate-text">
            {plain(about, 300)}
          </p>
        )}
        {broken.map((p) => (
          <p key={p.name} className="isolate-text">
            Cannot be chosen: {plain(p.error ?? "", 300)}
          </p>
        ))}
      </div>
    </div>
  );
}
