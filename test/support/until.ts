/** Owns waiting in tests: for a condition, with a deadline, never for a time. */

/** Resolves once `condition` holds; rejects after `withinMs`. */
export async function until(condition: () => boolean | Promise<boolean>, withinMs = 15_000): Promise<void> {
  const deadline = Date.now() + withinMs
  while (!(await condition())) {
    if (Date.now() > deadline)
      throw new Error(`the condition did not come true within ${withinMs} ms: ${condition.toString()}`)
    await new Promise(resolve => setTimeout(resolve, 2))
  }
}
