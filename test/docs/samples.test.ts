/** Every TypeScript sample of a page compiles against the sources that the package is built from. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import ts from 'typescript'
import { expect, it, onTestFinished } from 'vitest'
import { repositoryFiles } from '../support/repository.ts'

/** What the reader has already: declared before a sample that uses it and does not make it. */
const GIVEN: Readonly<Record<string, string>> = {
  key: "declare const key: import('@usher-authz/usher/agent').AgentOptions['key']",
  resource: 'declare const resource: string',
  accessToken: 'declare const accessToken: string',
  message: 'declare const message: ReturnType<typeof JSON.parse>',
  transport: 'declare const transport: { send(message: object): Promise<void> }',
  client: "declare const client: import('@modelcontextprotocol/client').Client",
  StdioClientTransport: "import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'",
}

const OPTIONS: ts.CompilerOptions = {
  strict: true,
  noEmit: true,
  allowImportingTsExtensions: true,
  skipLibCheck: true,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  moduleDetection: ts.ModuleDetectionKind.Force,
  target: ts.ScriptTarget.ES2024,
  lib: ['lib.es2024.d.ts'],
  types: ['node'],
  paths: {
    '@usher-authz/usher/agent': [resolve('src/agent/index.ts')],
    '@usher-authz/usher/embedded': [resolve('src/enforcement/doors/embedded/index.ts')],
    '@usher-authz/usher/verify': [resolve('src/verify/index.ts')],
  },
}

const samples = repositoryFiles()
  .filter(({ path }) => /^(README|SECURITY|CONTRIBUTING|docs\/.*)\.md$/.test(path))
  .flatMap(({ path, text }) =>
    [...text.matchAll(/^```ts\n([\s\S]*?)^```/gm)].map(([, sample], at) => ({
      name: `${path} ${at + 1}`,
      sample: sample!,
    })),
  )

it('every sample in TypeScript compiles', () => {
  expect(samples.length).toBeGreaterThan(3)
  mkdirSync('.cache', { recursive: true })
  const folder = mkdtempSync(resolve('.cache', 'samples-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const files = samples.map(({ sample }, at) => {
    const given = Object.entries(GIVEN).filter(([name]) => {
      const makes = new RegExp(`(?:const|let) (?:\\{[^}]*\\b)?${name}\\b|^import .*\\b${name}\\b`, 'm')
      return new RegExp(`\\b${name}\\b`).test(sample) && !makes.test(sample)
    })
    const file = join(folder, `sample-${at}.ts`)
    writeFileSync(file, `${given.map(([, line]) => line).join('\n')}\n${sample}`)
    return file
  })
  const program = ts.createProgram(files, OPTIONS)
  const faults = files.flatMap((file, at) => {
    const source = program.getSourceFile(file)!
    return [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)].map(
      one => `${samples[at]!.name}: ${ts.flattenDiagnosticMessageText(one.messageText, ' ')}`,
    )
  })
  expect(faults).toEqual([])
})
