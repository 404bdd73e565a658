import { Dialog } from "./Dialog";

const keys: [string[], string][] = [
  [["n"], "New session"],
  [["Ctrl", "K"], "All commands (⌘K on a Mac)"],
  [["/"], "Search sessions"],
  [["j", "k"], "Next and previous session"],
  [["↑", "↓"], "Move in the session list"],
  [["i"], "Write a prompt"],
  [["Enter"], "Send, or queue while a turn runs"],
  [["Shift", "Enter"], "New line"],
  [["Esc", "Esc"], "Stop the turn"],
  [["1", "2", "3", "4"], "Answer an approval (outside text fields)"],
  [["d"], "Session details"],
  [["c"], "Changes"],
  [["↑", "↓"], "On a line number of a diff: other lines; Enter comments"],
  [["Ctrl", "End"], "Jump to the end of the conversation"],
  [["?"], "Show these shortcuts"],
];

export function Keys({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-2">
        {keys.map(([ks, what]) => (
          <div key={what} className="contents">
            <dt className="flex items-start gap-1">
              {ks.map((k) => (
                <kbd key={k}>{k}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
