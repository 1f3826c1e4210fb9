/**
 * Owns where the focus goes when a part of the page that has it goes away by her own act: to the heading of
 * what the part stood in, or of the page, so that whoever works by keys or by a screen reader does not begin
 * at the top again. Contract: "Owner API".
 */
import { useLayoutEffect } from 'preact/hooks'

/** What an act may be about: one of a list, a card, or a section of a page. */
const SUBJECT = 'li, article, section'
const HEADING = 'h2, h3'

/** Hands the focus on if `part` of the component has it when the component goes away. */
export function useFocusHandover(part: () => HTMLElement | null): void {
  // What runs when a component goes away runs before its nodes are removed.
  useLayoutEffect(() => () => handOver(part()), [])
}

function handOver(part: HTMLElement | null): void {
  if (part === null || !part.contains(document.activeElement)) return
  const subjects = subjectsOf(part)
  // Only then the page is as her act leaves it: what the part stood in may be gone as well.
  queueMicrotask(() => {
    if (!isFocusLost()) return
    const subject = subjects.find(one => one.isConnected && one.querySelector(HEADING) !== null)
    const place = subject === undefined ? pageHeading() : placeIn(subject)
    place?.focus({ preventScroll: true })
  })
}

/** Moves the focus to `place` if it is lost. If she went elsewhere meanwhile, it stays there. */
export function takeLostFocus(place: HTMLElement | null): void {
  if (isFocusLost()) place?.focus()
}

/**
 * Whether nothing has the focus that she can go on from. A browser takes it from what goes away, and from a
 * button that is disabled, as each is while its act runs.
 */
export function isFocusLost(): boolean {
  const at = document.activeElement
  return at === null || at === document.body || at.matches(':disabled')
}

/** What she begins a page at. It takes the focus. */
export function pageHeading(): HTMLElement | null {
  return document.querySelector<HTMLElement>('main h1')
}

/** What a part stands in, from the inside to the outside. */
function subjectsOf(part: HTMLElement): HTMLElement[] {
  const nearest = part.parentElement?.closest<HTMLElement>(SUBJECT) ?? null
  return nearest === null ? [] : [nearest, ...subjectsOf(nearest)]
}

/** A card takes the focus itself, anything else by its heading. */
function placeIn(subject: HTMLElement): HTMLElement | null {
  if (subject.hasAttribute('tabindex')) return subject
  const heading = subject.querySelector<HTMLElement>(HEADING)
  // A heading takes the focus only if it has this.
  heading?.setAttribute('tabindex', '-1')
  return heading
}
