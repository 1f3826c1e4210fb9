/**
 * Owns a map whose size others cannot inflate. Contract: "Limits" (what is kept is ours to bound): the map
 * forgets old entries.
 */

/**
 * A map of at most `entriesMax` entries. An entry that is set becomes the newest; above the limit, the oldest
 * is forgotten. Reading does not make an entry newer.
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
