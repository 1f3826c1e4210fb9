/**
 * Owns where the focus goes when the button or field that has it goes away: it stays at its card, so that
 * whoever works by keys or by a screen reader does not begin at the top again. Contract: "Owner API".
 */
import { isFocusLost, pageHeading } from '../parts/focus.ts'

const CARD = 'article[data-family]'

/** The card that has the focus. */
export function cardWithFocus(): HTMLElement | null {
  return document.activeElement?.closest<HTMLElement>(CARD) ?? null
}

/**
 * Moves the focus to the card from which she acted: its buttons are disabled while the act runs, and lose the
 * focus by that, and a settled card has none. If she went elsewhere meanwhile, the focus stays there.
 */
export function takeFocus(card: HTMLElement | null, isSettled: boolean): void {
  const isAtSettled = isSettled && card?.contains(document.activeElement) === true
  if (isFocusLost() || isAtSettled) card?.focus({ preventScroll: true })
}

/** Does what takes away the button or field that has the focus, which then moves to the card. */
export function keepingFocus(act: () => void): void {
  const card = cardWithFocus()
  act()
  card?.focus({ preventScroll: true })
}

/** Moves the focus off the card of this family, which is about to go: to a card beside it, or the heading. */
export function focusBeside(list: HTMLElement | null, family: string): void {
  const cards = [...(list?.querySelectorAll<HTMLElement>(CARD) ?? [])]
  const at = cards.findIndex(one => one.dataset['family'] === family)
  const beside = cards[at + 1] ?? cards[at - 1] ?? pageHeading()
  beside?.focus({ preventScroll: true })
}
