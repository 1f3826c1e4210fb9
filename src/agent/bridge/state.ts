/**
 * Owns what the bridge keeps on disk for one client: a key for each owner and authority, receipts and grants,
 * what a person agreed to, and the requests under way. Contract: "Connection" (a pseudonymous handle is a
 * key, so one owner sees one agent and two owners cannot link it) and "Permission ticket" (the family
 * outlives a process).
 */
import { readFileSync } from 'node:fs'
import { link, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { ExposedFile, readPrivateFile } from '../../files/private-file.ts'
import { s256Json } from '../../wire/encoding.ts'
import { parseJson, type Json } from '../../wire/json.ts'
import { generatePrivateJwk, importPrivateJwk, type PrivateKey } from '../../wire/keys.ts'
import { AgentError, fail } from '../agent-error.ts'
import { fileName, fileStore, readAll, readOne, writeWhole, type AgentStore } from '../store.ts'

/** Whose resource it is, and who decides for her. */
export interface Owner {
  as_uri: string
  owner: string
}

/** What is known of one tool from the calls so far. */
export interface KnownTool {
  resource: string
  tool: string
  /** What its last call met: no challenge, terms, the owner each time, or a refusal. */
  access: 'free' | 'terms' | 'asks' | 'closed'
  /** Hash of its definition when a person last agreed to its terms. */
  definition?: string | undefined
}

/** Who the agent is to one owner. `file` holds its key. */
export interface Identity {
  key: PrivateKey
  file: string
  store: AgentStore
}

/** The folder of one client. Everything in it is readable by its user alone. */
export interface BridgeState {
  readonly folder: string
  /** The key and the store for one owner; the key is made when it is first needed. */
  identity(owner: Owner): Promise<Identity>
  ownerOf(resource: string): Promise<Owner | undefined>
  keepOwner(resource: string, owner: Owner): Promise<void>
  tool(resource: string, tool: string): Promise<KnownTool | undefined>
  keepTool(tool: KnownTool): Promise<void>
  /** Whether a person agreed to these terms, by the hash of all that she was shown. */
  agreed(consent: Json): Promise<boolean>
  keepAgreed(consent: Json): Promise<void>
  /** A record of one request under way, by its id. */
  keepFamily(id: string, record: object): Promise<void>
  family<T>(id: string): Promise<T | undefined>
  families<T>(): Promise<T[]>
  dropFamily(id: string): Promise<void>
  /** Holds a request for this process alone; undefined where another one that lives holds it. */
  hold(id: string): Promise<(() => Promise<void>) | undefined>
  /** Random bytes of this client's own, kept: what signs the states that its requests carry. */
  secret(): Promise<Buffer>
}

/** The state of the client of this name under `root`. */
export function bridgeState(root: string, client: string): BridgeState {
  const folder = join(root, folderName(client))
  const at = (kind: string): string => join(folder, kind)
  const identities = new Map<string, Promise<Identity>>()
  const named = (...parts: string[]): string => fileName(JSON.stringify(parts))
  return {
    folder,
    identity: owner => {
      const place = join(at('owners'), named(owner.as_uri, owner.owner).replace(/\.json$/, ''))
      const known = identities.get(place) ?? openIdentity(place)
      identities.set(place, known)
      known.catch(() => identities.delete(place))
      return known
    },
    ownerOf: resource => readOne<Owner>(join(at('resources'), named(resource))),
    keepOwner: (resource, owner) => writeWhole(at('resources'), named(resource), owner),
    tool: (resource, tool) => readOne<KnownTool>(join(at('tools'), named(resource, tool))),
    keepTool: tool => writeWhole(at('tools'), named(tool.resource, tool.tool), tool),
    agreed: async consent => (await readOne(join(at('agreed'), `${hashName(consent)}.json`))) !== undefined,
    keepAgreed: consent => writeWhole(at('agreed'), `${hashName(consent)}.json`, { consent, at: Date.now() }),
    keepFamily: (id, record) => writeWhole(at('families'), `${id}.json`, record),
    family: id => readRecord(join(at('families'), `${id}.json`)),
    families: () => readAll(at('families')),
    dropFamily: id => rm(join(at('families'), `${id}.json`), { force: true }),
    hold: id => holdFile(at('held'), id),
    secret: () =>
      keptOnce(folder, 'secret', () => crypto.getRandomValues(Buffer.alloc(32)).toString('hex')).then(hex =>
        Buffer.from(hex, 'hex'),
      ),
  }
}

/** A name that may stand in a path, and the whole of it as a hash, so that no two clients share a folder. */
function folderName(client: string): string {
  const readable = client
    .replaceAll(/[^A-Za-z0-9.-]+/g, '-')
    .replace(/^\.+/, '')
    .slice(0, 40)
  return `${readable === '' ? 'client' : readable}-${hashName(client).slice(0, 10)}`
}

function hashName(value: Json): string {
  return s256Json(value).replace(/^s256:/, '')
}

async function openIdentity(place: string): Promise<Identity> {
  const text = await keptOnce(place, 'key.json', () => JSON.stringify(generatePrivateJwk()))
  return { key: importPrivateJwk(parseJson(text)), file: join(place, 'key.json'), store: fileStore(place) }
}

/**
 * The text of a file, made where it is not there; of two processes that make it at once, both have that of
 * the first.
 */
async function keptOnce(folder: string, name: string, make: () => string): Promise<string> {
  const path = join(folder, name)
  const read = (): Promise<string | undefined> =>
    readPrivateFile(path).then(
      bytes => bytes.toString('utf8'),
      (error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return undefined
        throw unusable(error)
      },
    )
  const kept = await read()
  if (kept !== undefined) return kept
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const temporary = join(folder, `.${name}.${crypto.randomUUID()}`)
  await writeFile(temporary, make(), { mode: 0o600, flag: 'wx' })
  try {
    await linked(temporary, path)
  } finally {
    await rm(temporary, { force: true })
  }
  return (await read())!
}

/** Gives a file, written whole, its name, unless something has that name already. */
async function linked(file: string, name: string): Promise<void> {
  await link(file, name).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
}

/**
 * A record of a request. One that is there and cannot be read may say that a call was sent, so nobody goes on
 * as if it were not there: fails with `state_unusable`.
 */
async function readRecord<T>(path: string): Promise<T | undefined> {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw unusable(error)
  }
  try {
    return JSON.parse(text) as T
  } catch (cause) {
    return fail(
      'state_unusable',
      `${path} is spoilt. It may say that a call was made: look at the resource, then remove the file.`,
      { cause },
    )
  }
}

const OF_FILES: ReadonlySet<string> = new Set([
  'EACCES',
  'EBUSY',
  'EDQUOT',
  'EFBIG',
  'EIO',
  'EISDIR',
  'EMFILE',
  'ENFILE',
  'ENOENT',
  'ENOSPC',
  'ENOTDIR',
  'EPERM',
  'EROFS',
])

/** An error of the file system, or a private file that is open to others, in words; any other as it is. */
export function unusable(error: unknown): unknown {
  if (error instanceof ExposedFile)
    return new AgentError('state_unusable', {
      detail: `The bridge does not use this file of its own: ${error.message}`,
      terminal: false,
      local: true,
      cause: error,
    })
  const { code, path = '', syscall = '' } = (error ?? {}) as NodeJS.ErrnoException
  if (error instanceof AgentError || code === undefined || !OF_FILES.has(code)) return error
  return new AgentError('state_unusable', {
    detail: `The bridge cannot use its own files: ${code} ${syscall} ${path}.`,
    terminal: false,
    local: true,
    cause: error,
  })
}

/** Names of the files that this process holds. */
const holding = new Set<string>()
const HOLD_ATTEMPTS = 5
const HOLD_PAUSE_MILLISECONDS = 40

/**
 * A file with the number of this process beside those of others that want the same. Each writes its own
 * before it looks, so of two at least one sees the other; and only a file whose process has ended is ever
 * removed by somebody else.
 */
async function holdFile(folder: string, id: string): Promise<(() => Promise<void>) | undefined> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  for (let attempt = 1; ; attempt++) {
    const mine = `${id}.${process.pid}.${crypto.randomUUID()}`
    holding.add(mine)
    const release = async (): Promise<void> => {
      await rm(join(folder, mine), { force: true })
      holding.delete(mine)
    }
    try {
      await writeFile(join(folder, mine), await startOf(process.pid), { mode: 0o600, flag: 'wx' })
      if (!(await isHeldByAnother(folder, { id, mine }))) return release
    } catch (error) {
      await release().catch(() => holding.delete(mine))
      throw error
    }
    await release()
    if (attempt === HOLD_ATTEMPTS) return undefined
    // Where two came at the same moment, both have gone back.
    await delay(HOLD_PAUSE_MILLISECONDS * (1 + Math.random()))
  }
}

async function isHeldByAnother(folder: string, { id, mine }: { id: string; mine: string }): Promise<boolean> {
  const others = (await readdir(folder)).filter(name => name.startsWith(`${id}.`) && name !== mine)
  for (const name of others) {
    const pid = Number(name.slice(id.length + 1).split('.')[0])
    const started = await readFile(join(folder, name), 'utf8').catch(() => undefined)
    if (started === undefined) continue
    if (pid === process.pid ? holding.has(name) : await isRunning(pid, started)) return true
    await rm(join(folder, name), { force: true })
  }
  return false
}

/**
 * Whether that process still runs: numbers are given again, so where the system tells when it began, that too
 * must be the same.
 */
async function isRunning(pid: number, started: string): Promise<boolean> {
  if (!lives(pid)) return false
  // Of a file that is just being written nothing can be read yet.
  return started === '' || started === (await startOf(pid))
}

/** When a process began, as Linux counts it; elsewhere the same word for all. */
async function startOf(pid: number): Promise<string> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined)
  // The second field is a name in parentheses, which may hold anything.
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? 'unknown'
}

function lives(pid: number): boolean {
  if (!Number.isSafeInteger(pid) || pid <= 0) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
