/**
 * Owns memory that others cannot fill. Contract: "Limits" (what is kept is ours to bound): a map that
 * forgets.
 */

/**
 * A map of at most `entriesMax` entries. What is set becomes the newest; beyond the bound the oldest is
 * forgotten. Reading keeps nothing.
 */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #entriesMax: number

  constructor(entriesMax: number) {
    super()
    this.#entriesMax = entriesMax
  }

  override set(key: Key, value: Value): this {
    this.delete(key)
    super.set(key, value)
    if (this.size > this.#entriesMax) this.delete(this.keys().next().value!)
    return this
  }
}
