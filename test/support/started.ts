/**
 * Owns what tests share and must end: it is started before them, closed after them, and bears one name all
 * the while.
 */
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest'

interface Started {
  close: () => Promise<void>
}

/** One for all tests of the file, or of the suite in which this is called. */
export function startedOnce<T extends Started>(start: () => Promise<T>): T {
  const holder: { current?: T } = {}
  beforeAll(async () => {
    holder.current = await start()
  })
  afterAll(() => holder.current?.close())
  return nowIn(holder)
}

/** Another one for each test. */
export function startedForEach<T extends Started>(start: () => T | Promise<T>): T {
  const holder: { current?: T } = {}
  beforeEach(async () => {
    holder.current = await start()
  })
  afterEach(() => holder.current?.close())
  return nowIn(holder)
}

/** Stands for what `holder` holds at the moment when it is read. */
export function nowIn<T extends object>(holder: { current?: T }): T {
  const current = (): T => {
    if (holder.current === undefined) throw new Error('this is read before the tests started it')
    return holder.current
  }
  return new Proxy({} as T, {
    get: (_, name) => Reflect.get(current(), name) as unknown,
    has: (_, name) => Reflect.has(current(), name),
    ownKeys: () => Reflect.ownKeys(current()),
    getOwnPropertyDescriptor: (_, name) => {
      const descriptor = Reflect.getOwnPropertyDescriptor(current(), name)
      return descriptor && { ...descriptor, configurable: true }
    },
  })
}
