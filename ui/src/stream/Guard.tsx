import { Component, type ReactNode } from "react";

/**
 * Contains a rendering error in one row, so that the rest of the page stays.
 */
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
