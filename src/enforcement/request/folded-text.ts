/**
 * Owns how two texts are compared that some server could take for the same. Contract: "Authorized call": a
 * name that a server could read as another one must not be judged by the milder of the two.
 */

/** Upper case comes first, because it turns ſ into S, as readers that fold case by Unicode do. */
export function foldedText(text: string): string {
  return text.normalize('NFKC').toUpperCase().toLowerCase()
}
