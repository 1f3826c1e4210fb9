/**
 * Owns programs that speak to an API by a client of which every type is generated from its OpenAPI document.
 */
import openapiTS, { astToString } from 'openapi-typescript'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import ts from 'typescript'
import { onTestFinished } from 'vitest'

const OPTIONS: ts.CompilerOptions = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noEmit: true,
  allowImportingTsExtensions: true,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  target: ts.ScriptTarget.ES2024,
  lib: ['lib.es2024.d.ts', 'lib.dom.d.ts', 'lib.dom.iterable.d.ts'],
  types: [],
}

/**
 * Writes a program of `lines`, in which each document's client is a variable by its name, and compiles it.
 * Each sends through the program's own `send`, which is fetch until somebody sets it.
 * @returns the compiler's faults, and what imports the program.
 */
export async function typedProgram<Exported>(
  documents: Record<string, Record<string, unknown>>,
  lines: readonly string[],
): Promise<{ faults: string[]; run: () => Promise<Exported> }> {
  // Below the project, so that the packages that it imports are found.
  mkdirSync('.cache', { recursive: true })
  const folder = mkdtempSync(resolve('.cache', 'typed-client-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const head = [
    "import createClient from 'openapi-fetch'",
    'export const sending = { send: (request: Request) => fetch(request) }',
    'const fetchBy = (request: Request) => sending.send(request)',
  ]
  for (const [name, document] of Object.entries(documents)) {
    writeFileSync(join(folder, `${name}.d.ts`), astToString(await openapiTS(document as never)))
    head.push(
      `import type { paths as Paths_${name} } from './${name}.d.ts'`,
      `const ${name} = createClient<Paths_${name}>({ baseUrl: 'https://${name}.example', fetch: fetchBy })`,
    )
  }
  const file = join(folder, 'program.ts')
  writeFileSync(file, `${[...head, ...lines].join('\n')}\n`)
  const program = ts.createProgram([file], OPTIONS)
  return {
    faults: ts
      .getPreEmitDiagnostics(program)
      .map(one => ts.flattenDiagnosticMessageText(one.messageText, ' ')),
    run: () => import(pathToFileURL(file).href) as Promise<Exported>,
  }
}
