/**
 * Owns what the bridge keeps on disk for one client: a key for each owner and authority, receipts and grants,
 * what a person agreed to, and the requests under way. Contract: "Connection" (a pseudonymous handle is a
 * key, so one owner sees one agent and two owners cannot link it) and "Permission ticket" (the family
 * outlives a process).
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createDurably, removeDurably } from '../../../files/durable-file.ts'
import { ExposedFile, readPrivateFile, refuseExposedFolder } from '../../../files/private-file.ts'
import { s256Json } from '../../../wire/encoding.ts'
import { parseJson, type Json } from '../../../wire/json.ts'
import { generatePrivateJwk, importPrivateJwk, type PrivateKey } from '../../../wire/signatures/keys.ts'
import { AgentError, fail } from '../../agent-error.ts'
import { fileName, fileStore, readAll, readOne, writeWhole, type AgentStore } from '../../store.ts'
import { holdIn, type Hold } from './holds.ts'

/** The owner of the resource, and who decides for her. */
export interface ResourceOwner {
  as_uri: string
  owner: string
}

/** The facts about one tool from the calls so far. */
export interface KnownTool {
  resource: string
  tool: string
  /** What its last call met: no challenge, terms, the owner each time, or a refusal. */
  access: 'free' | 'terms' | 'asks' | 'closed'
  /** Hash of its definition when a person last agreed to its terms. */
  definition?: string | undefined
}

/** Where the server of a tool asked, and when, in milliseconds since the epoch. */
interface StreamNote {
  resource: string
  tool: string
  stream: 'call' | 'session'
  at: number
}

/** A server may be another one by then. */
const STREAM_NOTE_MILLISECONDS_MAX = 30 * 86_400_000

/** The agent's identity for one owner. `file` holds its key. */
export interface Identity {
  key: PrivateKey
  file: string
  store: AgentStore
}

/**
 * The folder of one client. Everything in it is readable by its user alone. Whatever is read from it fails
 * with `ExposedFile` where somebody else could have put it there.
 */
export interface BridgeState {
  readonly folder: string
  /** The key and the store for one owner; the key is made when it is first needed. */
  identity(owner: ResourceOwner): Promise<Identity>
  /** The file of the key for one owner, and the key, if it was made. */
  keyOf(owner: ResourceOwner): Promise<{ file: string; key: PrivateKey | undefined }>
  ownerOf(resource: string): Promise<ResourceOwner | undefined>
  keepOwner(resource: string, owner: ResourceOwner): Promise<void>
  tool(resource: string, tool: string): Promise<KnownTool | undefined>
  keepTool(tool: KnownTool): Promise<void>
  /**
   * Where the server of a tool asks its client, on the stream of a call or on that of the session, as far as
   * that was noticed in the last 30 days.
   */
  questionStream(resource: string, tool: string): Promise<'call' | 'session' | undefined>
  /** Without a stream, it is forgotten. */
  keepQuestionStream(resource: string, tool: string, stream: 'call' | 'session' | undefined): Promise<void>
  /** Whether a person agreed to these terms, by the hash of everything that she was shown. */
  agreed(consent: Json): Promise<boolean>
  keepAgreed(consent: Json): Promise<void>
  /** A record of one request under way, by its id. */
  keepFamily(id: string, record: object): Promise<void>
  family<T>(id: string): Promise<T | undefined>
  families<T>(): Promise<T[]>
  dropFamily(id: string): Promise<void>
  /**
   * Holds a request for this process alone; undefined if another live process holds it, even if it offers it,
   * unless `offered` requests are wanted too.
   */
  hold(id: string, target: 'abandoned' | 'offered'): Promise<Hold | undefined>
  /** Random bytes that are kept for this client; they sign the states that its requests carry. */
  secret(): Promise<Buffer>
}

/** The state of the client of this name under `root`. */
export function bridgeState(root: string, client: string): BridgeState {
  const folder = join(root, folderName(client))
  const at = (kind: string): string => {
    refuseExposedFolder(folder)
    return join(folder, kind)
  }
  const identities = new Map<string, Promise<Identity>>()
  const named = (...parts: string[]): string => fileName(JSON.stringify(parts))
  const placeOf = (owner: ResourceOwner): string =>
    join(at('owners'), named(owner.as_uri, owner.owner).replace(/\.json$/, ''))
  return {
    folder,
    keyOf: async owner => {
      const file = join(placeOf(owner), KEY)
      const text = await readIfPresent(file)
      return { file, key: text === undefined ? undefined : importPrivateJwk(parseJson(text)) }
    },
    identity: async owner => {
      const place = placeOf(owner)
      const known = identities.get(place) ?? openIdentity(place)
      identities.set(place, known)
      known.catch(() => identities.delete(place))
      return known
    },
    ownerOf: async resource => readOne<ResourceOwner>(join(at('resources'), named(resource))),
    keepOwner: async (resource, owner) => writeWhole(at('resources'), named(resource), owner),
    tool: async (resource, tool) => readOne<KnownTool>(join(at('tools'), named(resource, tool))),
    keepTool: async tool => writeWhole(at('tools'), named(tool.resource, tool.tool), tool),
    questionStream: async (resource, tool) => {
      const note = await readOne<StreamNote>(join(at('streams'), named(resource, tool)))
      const isFresh = note !== undefined && Date.now() - note.at < STREAM_NOTE_MILLISECONDS_MAX
      return isFresh ? note.stream : undefined
    },
    keepQuestionStream: async (resource, tool, stream) => {
      const name = named(resource, tool)
      if (stream === undefined) return removeDurably(join(at('streams'), name))
      return writeWhole(at('streams'), name, { resource, tool, stream, at: Date.now() } satisfies StreamNote)
    },
    agreed: async consent => (await readOne(join(at('agreed'), `${hashName(consent)}.json`))) !== undefined,
    keepAgreed: async consent =>
      writeWhole(at('agreed'), `${hashName(consent)}.json`, { consent, at: Date.now() }),
    keepFamily: async (id, record) => writeWhole(at('families'), `${id}.json`, record),
    family: async id => readRecord(join(at('families'), `${id}.json`)),
    families: async () => readAll(at('families')),
    dropFamily: async id => removeDurably(join(at('families'), `${id}.json`)),
    hold: async (id, target) => holdIn(at('held'), id, target),
    secret: async () =>
      readOrCreate(at('.'), 'secret', () => crypto.getRandomValues(Buffer.alloc(32)).toString('hex')).then(
        hex => Buffer.from(hex, 'hex'),
      ),
  }
}

/**
 * A part of the name that is safe in a path, and the hash of the whole name, so that no two clients share a
 * folder.
 */
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

const KEY = 'key.json'

async function openIdentity(place: string): Promise<Identity> {
  const text = await readOrCreate(place, KEY, () => JSON.stringify(generatePrivateJwk()))
  return { key: importPrivateJwk(parseJson(text)), file: join(place, KEY), store: fileStore(place) }
}

/**
 * The text of a file, made if it does not exist; if two processes make it at once, both get the first one's.
 */
async function readOrCreate(folder: string, name: string, make: () => string): Promise<string> {
  const path = join(folder, name)
  const text = await readIfPresent(path)
  if (text !== undefined) return text
  await createDurably(folder, name, make())
  return (await readIfPresent(path))!
}

function readIfPresent(path: string): Promise<string | undefined> {
  return readPrivateFile(path).then(
    bytes => bytes.toString('utf8'),
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined
      throw unusable(error)
    },
  )
}

/**
 * A record of a request. An unreadable record may say that a call was sent, so it must not be ignored: fails
 * with `state_unusable`.
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
      detail: `The bridge does not use what is there of its own: ${error.message}`,
      terminal: false,
      local: true,
      cause: error,
    })
  const { code, path, syscall = '' } = (error ?? {}) as NodeJS.ErrnoException
  if (error instanceof AgentError || code === undefined) return error
  // A file system may have codes of its own: with a path, it is one of these, unless a program was started.
  if (syscall.startsWith('spawn') || !(OF_FILES.has(code) || path !== undefined)) return error
  return new AgentError('state_unusable', {
    detail: `The bridge cannot use its own files: ${code} ${syscall} ${path ?? ''}.`,
    terminal: false,
    local: true,
    cause: error,
  })
}
