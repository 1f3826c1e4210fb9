/**
 * Names in `src` are verbs and nouns that a stranger would search (CONTRIBUTING.md, "Glossary"). A participle
 * such as `given` does not say what the value is. test/names.txt lists what stays; after a rename,
 * `WRITE_NAMES=1 vitest run --project pure test/names.test.ts` writes it anew. The name of a type is declared
 * once, so that whoever searches it finds one thing.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { ROOT, repositoryFiles, type TextFile } from './support/repository.ts'

const PARTICIPLES = new Set(
  (
    'asked around came given giving gone heard held holding kept learned learnt learning ' +
    'said saying seen taken telling told wanted weighed weighing'
  ).split(' '),
)
const LIST = join(ROOT, 'test', 'names.txt')
const HEAD = `# Participles that src declares, by file: members of what is serialized, such as a JSON document or a row.
# test/names.test.ts compares this list with the sources, and writes it anew if WRITE_NAMES is set.
`

/**
 * The names that a node declares. The members of an object literal declare none: their type does, or they are
 * data. Nor does an import or an export: it repeats a name of another file, unless it gives a new one.
 */
function declaredName(node: ts.Node): ts.Node | undefined {
  if (ts.isPropertyAssignment(node) || ts.isShorthandPropertyAssignment(node)) return undefined
  if (ts.isImportSpecifier(node) || ts.isExportSpecifier(node))
    return node.propertyName === undefined ? undefined : node.name
  const named = ts.isBindingElement(node) || ts.isClassElement(node) || ts.isTypeElement(node)
  return named || ts.isParameter(node) || ts.isVariableDeclaration(node) || ts.isFunctionLike(node)
    ? node.name
    : declarationName(node)
}

function declarationName(node: ts.Node): ts.Node | undefined {
  const declares =
    ts.isFunctionDeclaration(node) ||
    ts.isClassDeclaration(node) ||
    ts.isInterfaceDeclaration(node) ||
    ts.isTypeAliasDeclaration(node) ||
    ts.isEnumDeclaration(node) ||
    ts.isEnumMember(node) ||
    ts.isTypeParameterDeclaration(node) ||
    ts.isNamedTupleMember(node) ||
    ts.isImportClause(node) ||
    ts.isNamespaceImport(node)
  return declares ? node.name : undefined
}

function hasParticiple(name: string): boolean {
  return name.split(/(?=[A-Z])|[_#]/).some(word => PARTICIPLES.has(word.toLowerCase()))
}

/** By its text: two rules read all sources, and reading takes longer than judging. */
const parsed = new Map<string, ts.SourceFile>()

function sourceFile({ path, text }: TextFile): ts.SourceFile {
  const known = parsed.get(text)
  if (known !== undefined) return known
  const made = ts.createSourceFile(path, text, ts.ScriptTarget.Latest)
  parsed.set(text, made)
  return made
}

/** The participles among the names that a source file declares, each once, in order of the alphabet. */
function participlesIn(file: TextFile): string[] {
  const names = new Set<string>()
  const visit = (node: ts.Node): void => {
    const name = declaredName(node)
    if (
      name !== undefined &&
      (ts.isIdentifier(name) || ts.isPrivateIdentifier(name)) &&
      hasParticiple(name.text)
    )
      names.add(name.text)
    ts.forEachChild(node, visit)
  }
  visit(sourceFile(file))
  return [...names].toSorted()
}

const sources = repositoryFiles().filter(({ path }) => /^src\/.*\.tsx?$/.test(path))

/** One line for each file that declares some: `src/a.ts: asked first_seen`. */
function participlesOfSources(): string[] {
  expect(sources.length).toBeGreaterThan(500)
  const found = sources.map(source => ({ path: source.path, names: participlesIn(source) }))
  return found.filter(({ names }) => names.length > 0).map(({ path, names }) => `${path}: ${names.join(' ')}`)
}

it('no name declared in src is a participle, unless test/names.txt lists it', () => {
  const found = participlesOfSources()
  if (process.env['WRITE_NAMES'] !== undefined) writeFileSync(LIST, `${HEAD}${found.join('\n')}\n`)
  const listed = readFileSync(LIST, 'utf8').split('\n')
  expect(found).toEqual(listed.filter(line => line !== '' && !line.startsWith('#')))
})

it.each([
  ['const given = 1', ['given']],
  ['function take(isAsked: boolean, { held, other: told }: Row): void {}', ['held', 'isAsked', 'told']],
  ['interface Said { first_seen: string; keep(): void }', ['Said', 'first_seen']],
  ['class Cache<Kept> { #kept = 1; get taken() { return 2 } }', ['#kept', 'Kept', 'taken']],
  ["import { one as heard, said } from './other.ts'", ['heard']],
  ['const row = { asked: 1, told: 2 }; use(row.asked, "held")', []],
  ['const mistaken = unseen + undertaken', []],
])('in `%s` the participles that are declared are %j', (text, names) => {
  expect(participlesIn({ path: 'a.ts', text })).toEqual(names)
})

/**
 * `Db`, `Tx`, `Pools` and `Database` of a party are those of src/storage/core over its own tables; `Props`
 * are what the component beside them takes.
 */
const OFTEN = new Set(['Database', 'Db', 'Pools', 'Props', 'Tx'])

/** The types and classes that a file declares. What it adds to a module of somebody else is not its own. */
function typesIn(file: TextFile): string[] {
  const names: string[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isModuleDeclaration(node)) return
    const isType = ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node)
    if ((isType || ts.isClassDeclaration(node)) && node.name !== undefined) names.push(node.name.text)
    ts.forEachChild(node, visit)
  }
  visit(sourceFile(file))
  return names
}

/** One line for each name that several declarations have: `Entry: src/a.ts src/b.ts`. */
function sharedTypeNames(files: readonly TextFile[], often: ReadonlySet<string>): string[] {
  const declared = files.flatMap(file => typesIn(file).map(name => ({ name, path: file.path })))
  return [...Map.groupBy(declared, ({ name }) => name)]
    .filter(([name, places]) => places.length > 1 && !often.has(name))
    .map(([name, places]) => `${name}: ${places.map(({ path }) => path).join(' ')}`)
}

describe('the name of a type', () => {
  it('is declared once in src: give the second type a name of its own, or import the first', () => {
    expect(sharedTypeNames(sources, OFTEN)).toEqual([])
  })

  it('that two files declare, exported or not, is found, and one that a file adds to a module is not', () => {
    const file = (path: string, text: string): TextFile => ({ path, text })
    const first = file('a.ts', 'export interface Entry {}\ntype Key = string\nclass Once {}')
    const second = file('b.ts', "type Entry = 1\ndeclare module 'fastify' { interface Key {} }")
    expect(sharedTypeNames([first, second], new Set())).toEqual(['Entry: a.ts b.ts'])
    expect(sharedTypeNames([first, second], new Set(['Entry']))).toEqual([])
  })
})
