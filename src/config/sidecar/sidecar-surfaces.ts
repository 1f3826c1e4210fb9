/**
 * Owns the reading of a sidecar's file, or of a part of it, for a comparison with what a server lists.
 * Contract: "Resource server enforcement point" (tools are configured): also what was left out on purpose,
 * and how each tool was described when its entry was written, which only comments say.
 */
import { isMap, parseDocument } from 'yaml'
import { z } from 'zod'
import { readFile, readYamlFile } from '../files.ts'
import { issueSentences } from '../issues.ts'
import { ConfigFault } from '../settings.ts'
import { SIDECAR_FILE, type WrittenTool } from './sidecar-file.ts'
import { methods } from './sidecar-methods.ts'
import { tool } from './sidecar-owner.ts'

/** What a file says about one resource. */
interface ConfiguredSurface {
  /** Its path, as it is written there; undefined for a block without one. */
  path: string | undefined
  tools: readonly WrittenTool[]
  methods: z.output<typeof methods>
  /** Methods that are opened for every resource. */
  openMethods: readonly string[]
  /** By tool, the hash of its description when the entry was written, where a comment still says it. */
  definitions: ReadonlyMap<string, string>
  /** Names of tools and methods that a comment calls left out. */
  leftOut: ReadonlySet<string>
}

/** What `usher sidecar tools` writes. */
const BLOCK = z.strictObject({
  tools: z.array(tool).describe('Tools.'),
  methods: methods.optional().describe('Methods.'),
})

type Block = z.output<typeof BLOCK> & { at: readonly (string | number)[]; path: string | undefined }

/**
 * The resource in the file; `path` chooses among several. Throws `ConfigFault` for a file that cannot be
 * read, and if `path` chooses none or there are several without it.
 */
export function readConfiguredSurface(file: string, path: string | undefined): ConfiguredSurface {
  const name = '--diff'
  const read = readYamlFile(name, file)
  const isBlock = typeof read === 'object' && read !== null && 'tools' in read
  const schema = isBlock ? BLOCK : SIDECAR_FILE
  const result = schema.safeParse(read)
  if (!result.success) throw new ConfigFault(issueSentences(result.error.issues, { schema, name }))
  const blocks =
    'owners' in result.data ? blocksIn(result.data) : [{ ...result.data, at: [], path: undefined }]
  const chosen = path === undefined ? blocks : blocks.filter(one => one.path === path)
  const [only, ...others] = chosen
  if (only === undefined || others.length > 0) {
    const paths = blocks.map(one => one.path).join(', ')
    throw new ConfigFault([`--path: say which resource of ${file} is meant: ${paths}.`])
  }
  const openMethods = 'open_methods' in result.data ? result.data.open_methods : []
  const comments = commentsOf(readFile(name, file).toString('utf8'), only.at)
  return { path: only.path, tools: only.tools, methods: only.methods ?? {}, openMethods, ...comments }
}

function blocksIn({ owners, resources = [] }: z.output<typeof SIDECAR_FILE>): Block[] {
  const shared = resources.map((one, index) => ({
    tools: one.tools,
    methods: one.methods,
    path: one.path ?? '/mcp/{owner}',
    at: ['resources', index],
  }))
  const own = owners.flatMap(({ owner, tools, methods: mapped, path, resources: several = [] }, index) => {
    const pathOf = (written: string | undefined): string =>
      (written ?? '/mcp/{owner}').replaceAll('{owner}', owner)
    const at = ['owners', index]
    const one = tools === undefined ? [] : [{ tools, methods: mapped, path: pathOf(path), at }]
    const each = several.map((resource, place) => ({
      tools: resource.tools,
      methods: resource.methods,
      path: pathOf(resource.path),
      at: [...at, 'resources', place],
    }))
    return [...one, ...each]
  })
  return [...shared, ...own]
}

const DEFINITION = /\btool:[ \t]*("(?:[^"\\]|\\.)*"|[^\s#,}]+)[ \t]+#[ \t]*(s256:[\w-]{43})/g
const LEFT_OUT = /#[ \t]*left out:[ \t]*("(?:[^"\\]|\\.)*"|\S+)/gi

function commentsOf(
  text: string,
  at: readonly (string | number)[],
): Pick<ConfiguredSurface, 'definitions' | 'leftOut'> {
  const document = parseDocument(text)
  const node = at.length === 0 ? document.contents : document.getIn(at, true)
  const range = at.length > 0 && isMap(node) ? node.range : undefined
  const part = range ? text.slice(range[0], range[2]) : text
  const definitions = [...part.matchAll(DEFINITION)].map(([, name, hash]) => [plain(name!), hash!] as const)
  const leftOut = [...part.matchAll(LEFT_OUT)].map(([, name]) => plain(name!))
  return { definitions: new Map(definitions), leftOut: new Set(leftOut) }
}

/** A name as it is written in double quotes or without any. */
function plain(written: string): string {
  if (!written.startsWith('"')) return written
  try {
    return String(JSON.parse(written))
  } catch {
    return written
  }
}
