/**
 * Owns JSON pointers (RFC 6901), by which an owner names members of a tool's parameters. Contract: "RPT
 * claims" (`operation`).
 */

/**
 * The names that a pointer passes, outermost first: `/order/a~1b` is `['order', 'a/b']`. Undefined for a text
 * that is no pointer, and for the empty one, which names the whole document.
 */
export function parsePointer(text: string): string[] | undefined {
  if (!/^(?:\/(?:[^~/]|~[01])*)+$/.test(text)) return undefined
  // In this order, so that `~01` is `~1` and not `/`.
  return text
    .slice(1)
    .split('/')
    .map(step => step.replaceAll('~1', '/').replaceAll('~0', '~'))
}

/** The pointer of a member by its name, in the object at the pointer `above` (`''`: the whole document). */
export function pointerTo(above: string, name: string): string {
  // In this order, so that a slash becomes `~1` and not `~01`.
  return `${above}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
}
