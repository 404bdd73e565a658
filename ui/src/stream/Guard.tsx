import { Component, type ReactNode } from "react";

/** Keeps a row that cannot be drawn from taking the page with it. */
export class Guard extends Component<{ children: ReactNode }, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError() {
    return { failed: true };
  }

  override render() {
    if (this.state.failed)
      return <p className="px-1 text-sm text-muted">This part could not be displayed.</p>;
    return this.props.children;
  }
}
