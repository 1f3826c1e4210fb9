/**
 * Owns what a CPU profile of V8 comes to: how long a thread spent in each part of the program within a part
 * of its time. What Node and native code did counts for whoever of ours, or of a package, called it.
 */

/** What `node --cpu-prof` writes; times in microseconds of the machine's monotonic clock. */
export interface CpuProfile {
  nodes: { id: number; callFrame: { functionName: string; url: string }; children?: number[] }[]
  samples: number[]
  timeDeltas: number[]
  startTime: number
}

/** Microseconds of a thread. */
export interface ThreadTimes {
  busy: number
  idle: number
  /** By part: a folder of `src`, a package, or what nobody called; the longest first. */
  parts: [part: string, us: number][]
  /** By the function in which the thread was itself, with its part; the longest first. */
  functions: [name: string, us: number][]
}

const IDLE = '(idle)'
/** What V8 names in place of a function of the program. */
const NOT_CALLED: Readonly<Record<string, string>> = {
  '(garbage collector)': 'garbage collection',
  '(program)': 'native code that no function called',
  '(root)': 'native code that no function called',
}

/** Where a thread was between two moments of the monotonic clock, in microseconds. */
export function threadTimes(profile: CpuProfile, from: number, to: number): ThreadTimes {
  const frames = framesOf(profile)
  const [parts, functions] = [new Map<string, number>(), new Map<string, number>()]
  let [busy, idle, at] = [0, 0, profile.startTime]
  profile.samples.forEach((id, n) => {
    // A sample stands for the time until the next one.
    at += profile.timeDeltas[n] ?? 0
    const us = profile.timeDeltas[n + 1] ?? 0
    if (us === 0 || at < from || at + us > to) return
    const frame = frames.get(id)
    if (frame === undefined || frame.name === IDLE) return void (idle += us)
    busy += us
    parts.set(frame.caller, (parts.get(frame.caller) ?? 0) + us)
    const name = frame.own === frame.name ? frame.name : `${frame.name} (${frame.own})`
    functions.set(name, (functions.get(name) ?? 0) + us)
  })
  return { busy, idle, parts: longestFirst(parts), functions: longestFirst(functions) }
}

interface Frame {
  name: string
  own: string
  /** The nearest part of ours or of a package that called it, or what it is itself. */
  caller: string
}

function framesOf({ nodes }: CpuProfile): Map<number, Frame> {
  const byId = new Map(nodes.map(node => [node.id, node]))
  const frames = new Map<number, Frame>()
  const children = new Set(nodes.flatMap(node => node.children ?? []))
  const open = nodes
    .filter(({ id }) => !children.has(id))
    .map(node => ({ node, above: undefined as string | undefined }))
  for (let one = open.pop(); one !== undefined; one = open.pop()) {
    const { node, above } = one
    const { functionName, url } = node.callFrame
    const name = functionName === '' ? '(anonymous)' : functionName
    const part = partOf(url)
    const caller = part ?? above
    const own = part ?? NOT_CALLED[name] ?? (/^(?:node|file):/.test(url) ? url : 'native')
    frames.set(node.id, { name, own, caller: NOT_CALLED[name] ?? caller ?? own })
    for (const id of node.children ?? []) {
      const child = byId.get(id)
      if (child !== undefined) open.push({ node: child, above: caller })
    }
  }
  return frames
}

/** The package or folder of `src` that a file belongs to; undefined for Node's own and for native code. */
function partOf(url: string): string | undefined {
  const inPackage = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url)
  if (inPackage !== null) return inPackage[1]!
  return /\/(src(?:\/[^/]+){0,2})(?:\/[^/]+)+$/.exec(url)?.[1]
}

function longestFirst(times: ReadonlyMap<string, number>): [string, number][] {
  return [...times].toSorted(([, a], [, b]) => b - a)
}
