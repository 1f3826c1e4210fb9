/**
 * What a machine can check about code and documents together. Each rule says what to do if it fails.
 */
import { createHash } from 'node:crypto'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ENDPOINTS, JOINT_ENDPOINTS, LOG_ENDPOINTS } from '../src/authority/endpoints.ts'
import { ENDPOINTS as ORGANIZATION_ENDPOINTS } from '../src/organization/endpoints.ts'
import { ENDPOINTS as TALLY_ENDPOINTS } from '../src/tally/endpoints.ts'
import { ADD_CHECKPOINT } from '../src/witness/add-checkpoint.ts'
import type { Described } from '../src/http/servers/endpoint.ts'
import { REFUSALS } from '../src/wire/refusal.ts'
import {
  contractEndpoints,
  declaredEndpoints,
  registeredEndpoints,
  type Endpoint,
} from './support/endpoints.ts'
import { readContractRows } from './support/contract-rows.ts'
import { headings, repositoryFiles, type TextFile } from './support/repository.ts'

const files = repositoryFiles()
const paths = new Set(files.map(({ path }) => path))
const folders = new Set([...paths].flatMap(ancestors))
const under = (...roots: string[]) => files.filter(({ path }) => roots.some(root => path.startsWith(root)))
const textOf = (path: string): string => files.find(file => file.path === path)?.text ?? ''
const contract = textOf('docs/contract.md')
const sources = under('src/').filter(({ path }) => /[.]tsx?$/.test(path))
const tests = under('test/').filter(({ path }) => path !== 'test/tidy.test.ts')
const documents = files.filter(({ path }) => path.endsWith('.md'))
const code = files.filter(({ path }) =>
  /\.(ts|cjs|sql|proto|ya?ml)$|(^|\/)(Makefile|Dockerfile|run)$/.test(path),
)

function ancestors(path: string): string[] {
  const parent = dirname(path)
  return parent === '.' ? [] : [parent, ...ancestors(parent)]
}

/** What `find` finds in each file, as `path: what`. */
function faults(among: readonly TextFile[], find: (file: TextFile) => readonly string[]): string[] {
  return among.flatMap(file => find(file).map(what => `${file.path}: ${what}`))
}

function linesWith(among: readonly TextFile[], pattern: RegExp): string[] {
  return faults(among, ({ text }) => text.split('\n').filter(line => pattern.test(line)))
}

const said = (text: string, pattern: RegExp): string[] => [...text.matchAll(pattern)].map(([, what]) => what!)

describe('each source file opens with what it owns', () => {
  const ofContract = new Set(headings(contract).flatMap(spellings))
  const known = new Set([...ofContract, ...headings(textOf('docs/choices.md')).flatMap(spellings)])

  /** A heading may be cited whole, or without what follows its colon or its parenthesis. */
  function spellings(heading: string): string[] {
    return [heading, heading.replace(/:.*$/, ''), heading.replace(/ \(.*$/, '')]
  }

  /**
   * The headings in `contract, "A" (of it), "B" and "C"` of the opening comment; and the same after
   * docs/choices.md.
   */
  function cited({ text }: TextFile): string[] {
    const opening = /^(?:#!.*\n)?\/\*\*([\s\S]*?)\*\//.exec(text)?.[1] ?? ''
    const comment = opening.replace(/\n \* ?/g, ' ').replaceAll('`', '')
    const found: string[] = []
    for (const start of comment.matchAll(/(?:contract|docs\/choices\.md)[,:] (?=")/gi)) {
      const item = /"([^"]+)"(?: \((?:[^()]|\([^()]*\))*\))?(?:(?:,? and |, )(?="))?/y
      item.lastIndex = start.index + start[0].length
      for (let one = item.exec(comment); one !== null; one = item.exec(comment)) found.push(one[1]!)
    }
    return found
  }

  it('citing headings of docs/contract.md that exist: contract, "<heading>"', () => {
    const wrong = (file: TextFile): string[] =>
      cited(file).length === 0 ? ['cites no heading'] : cited(file).filter(heading => !known.has(heading))
    expect(faults(sources, wrong)).toEqual([])
  })

  it('in one form: what it owns, then a sentence that begins with Contract and cites', () => {
    const sentence = /(?:^|[.:;!?] )contract[,:] "/
    const opening = ({ text }: TextFile): string =>
      (/^(?:#!.*\n)?\/\*\*([\s\S]*?)\*\//.exec(text)?.[1] ?? '').replace(/\n \* ?/g, ' ').trim()
    expect(faults(sources, file => (sentence.test(opening(file)) ? [opening(file)] : []))).toEqual([])
  })

  it('in wire and rules, at least one of the contract itself', () => {
    const strict = under('src/wire/', 'src/rules/')
    const without = strict.filter(file => !cited(file).some(heading => ofContract.has(heading)))
    expect(without.map(({ path }) => path)).toEqual([])
  })
})

describe('comments', () => {
  it('are wrapped at 110 columns', () => {
    const program = files.filter(({ path }) => /\.(ts|cjs|js|mjs)$/.test(path) && !path.startsWith('docs/'))
    const isLong = (line: string): boolean =>
      line.length > 110 && /^\s*(?:\*|\/\*|\/\/)/.test(line) && !/oxlint|eslint|https?:/.test(line)
    expect(faults(program, ({ text }) => text.split('\n').filter(isLong))).toEqual([])
  })
})

describe('the endpoints of the contract', () => {
  const ofAuthority = [ENDPOINTS, JOINT_ENDPOINTS, LOG_ENDPOINTS].flatMap(each => Object.values(each).flat())
  const ofOrganization = Object.values(ORGANIZATION_ENDPOINTS)
    .flat()
    .filter(one => !ofAuthority.includes(one))
  const declared = [...new Set([...ofAuthority, ...ofOrganization, ...TALLY_ENDPOINTS, ADD_CHECKPOINT])]
  const servers = sources.filter(({ path }) =>
    /^src\/(authority|organization|tally|witness|surface|enforcement|http)\//.test(path),
  )
  const registered = [
    ...registeredEndpoints(servers),
    ...declaredEndpoints(ofAuthority, 'authority'),
    ...declaredEndpoints(ofOrganization, 'organization'),
    ...declaredEndpoints(TALLY_ENDPOINTS, 'tally').filter(({ by }) => by === 'tally'),
    ...declaredEndpoints([ADD_CHECKPOINT], 'witness'),
  ]
  const listed = contractEndpoints(contract)
  const due = listed.filter(({ by }) => by !== 'later')
  const foldersOf: Record<string, string[]> = {
    authority: ['authority', 'surface'],
    organization: ['organization'],
    tally: ['tally'],
    sidecar: ['enforcement'],
    'every listener': ['http'],
  }
  const named = ({ method, path }: Endpoint): string => `${method} ${path}`
  const isOpen = ({ path }: Endpoint): boolean => path.endsWith('/...')
  /** Beside the contract's own, if no declaration says so; docs/choices.md tells of each. */
  const added = [
    ...declaredEndpoints(
      declared.filter(({ rows }) => 'addedUnder' in rows),
      'ours',
    ).map(named),
    'GET /.well-known/uma2-configuration',
    'GET /.well-known/oauth-protected-resource/*',
    'GET /owner-resources/{}',
    'GET /owner-resources/{}/*',
    'GET /metrics',
  ]

  it('stand in docs/contract.md, each with who serves it', () => {
    expect(listed.length).toBeGreaterThan(60)
    expect(due.filter(({ by }) => foldersOf[by] === undefined)).toEqual([])
  })

  it('are each registered once, by the party that docs/contract.md names', () => {
    const times = (endpoint: Endpoint): number =>
      registered.filter(one => named(one) === named(endpoint) && foldersOf[endpoint.by]!.includes(one.by))
        .length
    // Of a row that leaves open what follows, whatever is below it.
    const isBelow = (one: Endpoint, { method, path, by }: Endpoint): boolean =>
      one.method === method && one.path.startsWith(path.slice(0, -3)) && foldersOf[by]!.includes(one.by)
    const [open, whole] = [due.filter(isOpen), due.filter(one => !isOpen(one))]
    expect(whole.filter(endpoint => times(endpoint) !== 1)).toEqual([])
    expect(open.length).toBeGreaterThan(0)
    expect(open.filter(row => !registered.some(one => isBelow(one, row)))).toEqual([])
  })

  it('are each declared, with the rows of the contract that it is or the heading of docs/choices.md that added it', () => {
    const says = new Map(readContractRows().rows.map(({ id, says: words }) => [id, words]))
    const choices = headings(textOf('docs/choices.md'))
    const isRight = ({ method, path, rows }: Described): boolean => {
      if ('addedUnder' in rows) return choices.includes(rows.addedUnder)
      const opening = `${method.toUpperCase()} ${path.replace('{owner}/{tier}/{version}', '{template_id}')}`
      // One row may be of two endpoints.
      const begins = rows.map(
        id =>
          says.get(id)?.startsWith(opening) === true || says.get(id)?.includes(` and ${opening} `) === true,
      )
      return rows.every(id => says.has(id)) && begins.includes(true)
    }
    expect(declared.filter(one => !isRight(one)).map(({ path, rows }) => [path, rows])).toEqual([])
    const routes = registeredEndpoints(
      under('src/authority/', 'src/organization/', 'src/tally/', 'src/surface/', 'src/http/'),
    ).map(named)
    const known = new Set(
      declared.map(({ method, path }) => `${method.toUpperCase()} ${path.replace(/\{\w+\}/g, '{}')}`),
    )
    // The listener of the metrics is for operators, and describes itself.
    expect(routes.filter(route => !known.has(route))).toEqual(['GET /metrics'])
  })

  it('leave out no row of the contract that is due of an owner’s authority', () => {
    const atAuthority = /^Endpoints \/ (Owner|Token|Protection|Resource server establishment|Health)/
    const { rows: listed } = readContractRows()
    const due = listed.filter(({ of, due: when }) => atAuthority.test(of) && when.startsWith('issue-'))
    const served = new Set(declared.flatMap(({ rows }) => ('addedUnder' in rows ? [] : rows)))
    expect(due.length).toBeGreaterThan(30)
    expect(due.map(({ id }) => id).filter(id => !served.has(id))).toEqual([])
  })

  it('that docs/contract.md calls later are registered by nobody, and no others are but those we added', () => {
    const known = new Set([...due.map(named), ...added])
    expect(registered.map(named).filter(name => !known.has(name))).toEqual([])
  })
})

describe('each word of refusal', () => {
  it('is met in a test of what answers with it', () => {
    const behaviour = tests.filter(({ path }) => path !== 'test/wire/refusal.test.ts')
    const met = (word: string): boolean =>
      behaviour.some(({ text }) => new RegExp(String.raw`\b${word}\b`).test(text))
    expect(Object.keys(REFUSALS).filter(word => !met(word))).toEqual([])
  })

  it('is said somewhere in the product', () => {
    const product = sources.filter(({ path }) => path !== 'src/wire/refusal.ts')
    const isSaid = (word: string): boolean => product.some(({ text }) => text.includes(`'${word}'`))
    expect(Object.keys(REFUSALS).filter(word => !isSaid(word))).toEqual([])
  })
})

describe('the documents', () => {
  const exists = (path: string): boolean =>
    [path, `${path}.ts`].some(one => paths.has(one)) || folders.has(path.replace(/\/$/, ''))

  it('link to what exists', () => {
    const link = /\]\((?!https?:|#|mailto:)([^)#\s]+)[^)]*\)/g
    const broken = ({ path, text }: TextFile) =>
      said(text, link).filter(to => !exists(join(dirname(path), to)))
    expect(faults(documents, broken)).toEqual([])
  })

  it('name files that exist', () => {
    // The page on the layout names what does not exist, on purpose.
    const pages = documents.filter(({ path }) => path !== 'docs/decisions/0006-layout.md')
    const name = /`((?:src|docs|test|envoy|migrations|proto|bench)\/[\w./-]*)`/g
    expect(faults(pages, ({ text }) => said(text, name).filter(path => !exists(path)))).toEqual([])
  })

  it('lead from each heading of the contract to the code', () => {
    const begin = textOf('docs/architecture.md')
    const leaves = said(contract, /^#{2,4} (.*)\n+(?![#\n])/gm)
    expect(leaves.length).toBeGreaterThan(30)
    expect(leaves.filter(heading => !begin.includes(`| ${heading} `))).toEqual([])
  })

  it('name commands that exist', () => {
    const makeTargets = said(textOf('Makefile'), /^([a-z-]+):/gm)
    const scripts = Object.keys((JSON.parse(textOf('package.json')) as { scripts: object }).scripts)
    const commands = said(textOf('src/cli.ts'), /(?:\.command|passOn)\(\s*'([a-z-]+)'/g)
    // A line of prose may begin with the word; a line of a fenced block that does is a command.
    const fence = /^ *```[^]*?^ *```$/gm
    const written = (text: string, name: string): string[] => [
      ...said(text.replace(fence, ''), new RegExp(`\`${name} ([a-z-]+)`, 'g')),
      ...(text.match(fence) ?? []).flatMap(block => said(block, new RegExp(`^ *${name} ([a-z-]+)`, 'gm'))),
    ]
    const unknown = ({ text }: TextFile) => [
      ...written(text, 'make').filter(name => !makeTargets.includes(name)),
      ...said(text, /\bnpm run ([a-z:-]+)/g).filter(name => !scripts.includes(name)),
      ...written(text, 'usher').filter(name => !commands.includes(name)),
      ...said(text, /\bcli\.[tj]s ([a-z-]+)/g).filter(name => !commands.includes(name)),
    ]
    expect(faults(documents, unknown)).toEqual([])
  })
})

describe('the portable profile', () => {
  const OWN =
    /advisory|xid8|xact_id|txid_|pg_snapshot|current_snapshot|\bx(?:min|max)\b|\bctid\b|\bTRIGGER\b|\bLISTEN [\w"$]|\bNOTIFY [\w"$]|pg_notify|\bLOCK TABLE\b/gi
  const named = (text: string): string[] => {
    const code = text.replaceAll(/^\s*(?:\*|\/\*\*|\/\/|--).*$/gm, '')
    return [...code.matchAll(OWN)].map(([word]) => word)
  }

  it.each([
    'SELECT pg_try_advisory_xact_lock(1)',
    'ALTER TABLE grants ADD COLUMN at xid8',
    'SELECT pg_current_xact_id()',
    'SELECT txid_current()',
    'SELECT pg_snapshot_xmin(pg_current_snapshot())',
    'SELECT xmin FROM grants',
    'DELETE FROM grants WHERE ctid = $1',
    'CREATE OR REPLACE TRIGGER told AFTER INSERT ON grants EXECUTE FUNCTION tell()',
    'CREATE EVENT TRIGGER told ON ddl_command_end EXECUTE FUNCTION tell()',
    'CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN END$$',
    '  await client.query(`LISTEN ${channel}`)',
    "  await client.query(`NOTIFY usher, 'alice'`)",
    "SELECT pg_notify('usher', 'alice')",
    '/* in one */ LOCK TABLE grants IN SHARE MODE',
  ])('has none of %s, and would say so', statement => {
    expect(named(`-- expand\n${statement};\n`)).not.toEqual([])
  })

  it('is kept to by every migration and every statement of the product', () => {
    // What UMA_AS_NOTIFY=false does without.
    const without = ['src/storage/core/listen.ts: LISTEN $', 'src/storage/core/notify.ts: pg_notify']
    const among = under('src/storage/', 'migrations/')
    for (const party of ['authority', 'organization', 'tally'])
      expect(among.filter(({ path }) => path.startsWith(`migrations/${party}/`)).length).toBeGreaterThan(3)
    expect(faults(among, ({ text }) => named(text))).toEqual(without)
  })

  it('is kept to by all SQL, for it stands in src/storage alone', () => {
    const elsewhere = sources.filter(({ path }) => !/^src\/(?:storage|dev|console)\//.test(path))
    expect(linesWith(elsewhere, /\bsql(?:<[^`]*>)?`|\.query\(|from '(?:kysely|pg)'/)).toEqual([])
  })
})

describe('the repository', () => {
  it('has no note to do something without the number of an issue', () => {
    const marks = /\b(?:TODO|FIXME|HACK|XXX|TMP)\b(?!.*#\d)/
    const written = code.filter(({ path }) => path !== 'test/tidy.test.ts')
    expect(linesWith(written, marks)).toEqual([])
  })

  it('has no test that is left out, and none that leaves out the others', () => {
    const left = /\b(?:it|test|describe)(?:\.\w+)*\.(?:only|skip|todo|skipIf|runIf)\b/
    expect(linesWith(tests, left)).toEqual([])
  })

  it('marks no export as internal that other code of the product imports', () => {
    const marked =
      /\/\*\*(?:(?!\*\/)[^])*?@internal(?:(?!\*\/)[^])*?\*\/\s*export (?:async )?(?:function|const|class|interface|type) (\w+)/g
    const imported = new Set(
      sources.flatMap(({ text }) =>
        [...text.matchAll(/^import (?:type )?\{([^}]*)\}/gm)].flatMap(
          ([, names]) => names!.match(/\w+/g) ?? [],
        ),
      ),
    )
    const exported = sources.flatMap(({ path, text }) =>
      [...text.matchAll(marked)].map(([, name]) => ({ path, name: name! })),
    )
    expect(exported.length).toBeGreaterThan(3)
    expect(exported.filter(({ name }) => imported.has(name))).toEqual([])
  })

  it('has no file over 400 lines: split it by noun', () => {
    const lines = ({ text }: TextFile): number => text.trimEnd().split('\n').length
    // A list is as long as what it lists, and a dump as what it dumps. A program writes the values.
    const isWritten = ({ path }: TextFile): boolean =>
      !/^test\/(?:contract-rows\.yaml|faults\/.*\.yaml|upgrade\/.*\.sql)$/.test(path) &&
      path !== 'charts/usher/values.yaml'
    const program = files.filter(({ path }) => /\.(?:tsx|js|mjs)$/.test(path))
    const long = [...code, ...program].filter(file => isWritten(file) && lines(file) > 400)
    expect(long.map(({ path }) => path)).toEqual([])
  })

  it('has no folder with more than twenty source files: divide it by noun', () => {
    const inFolder = Map.groupBy(sources, ({ path }) => dirname(path))
    const full = [...inFolder].filter(([, among]) => among.length > 20).map(([folder]) => folder)
    expect(inFolder.size).toBeGreaterThan(20)
    expect(full).toEqual([])
  })

  const MIGRATIONS = ['authority', 'organization', 'tally', 'witness'].map(party => `migrations/${party}/`)
  it.each([...MIGRATIONS, 'docs/decisions/'])('numbers %s without gaps', folder => {
    const numbers = under(folder).map(({ path }) => path.slice(folder.length, folder.length + 4))
    expect(numbers).toEqual(numbers.map((_, at) => String(at + 1).padStart(4, '0')))
  })

  it('holds each migration to its digest: it is never edited, a later one is added', () => {
    const digests = under('migrations/').map(
      ({ path, text }) => `${createHash('sha256').update(text).digest('hex')}  ${path}`,
    )
    expect(digests).toEqual(textOf('test/storage/migrations.sha256').trimEnd().split('\n'))
  })

  it('names no path of the machine it was written on, and no package registry', () => {
    const machine = ['home', 'root', 'work', 'tmp', 'Users'].map(name => String.raw`(?<![\w.:])/${name}/`)
    const foreign = new RegExp(
      [...machine, String.raw`registry\.(?:npmjs|yarnpkg)\.`, String.raw`pypi\.org`].join('|'),
    )
    expect(linesWith(files, foreign)).toEqual([])
  })

  it('holds no control character in a text: write it as an escape', () => {
    // oxlint-disable-next-line no-control-regex
    const control = /[\0-\x08\x0b-\x1f\x7f\ufeff\u202a-\u202e\u2066-\u2069]/
    const texts = files.filter(({ path }) => !/\.(?:png|tgz)$/.test(path))
    expect(linesWith(texts, control)).toEqual([])
  })

  it('waits for others at most so long by src/limits/patience.ts, and by no race of its own', () => {
    const product = sources.filter(({ path }) => !path.startsWith('src/dev/'))
    expect(linesWith(product, /\bPromise\.race\(/)).toEqual([])
  })

  it('runs each of its quick checks in `make check`', () => {
    const defined = said(textOf('Makefile'), /^(check-[a-z]+):/gm)
    const run = said(textOf('Makefile'), /^CHECK(?:S|ING_TESTS) := (.*)$/gm).flatMap(line => line.split(' '))
    expect(defined.filter(check => !run.includes(check))).toEqual([])
    expect(defined).toContain('check-exports')
  })

  it('runs everywhere on the Node of package.json', () => {
    const manifest = JSON.parse(textOf('package.json')) as { devDependencies: Record<string, string> }
    const images = said(textOf('Dockerfile'), /^ARG BASE=node:([\d.]+)-slim$/gm)
    expect(new Set(images)).toEqual(new Set([manifest.devDependencies['node']]))
  })
})
