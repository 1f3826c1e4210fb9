/**
 * What a release is made of, before one is made: package, image and chart of one version. contract, "What the
 * service does": one program, a subcommand per party.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { ROOT } from './support/repository.ts'

const textOf = (path: string): string => readFileSync(join(ROOT, path), 'utf8')
const manifest = JSON.parse(textOf('package.json')) as Record<string, unknown> & {
  version: string
  devDependencies: { node: string }
}

test('the package can be published, with provenance, and says what it needs', () => {
  expect(manifest).not.toHaveProperty('private')
  expect(manifest).toMatchObject({
    name: '@usher-authz/usher',
    license: 'Apache-2.0',
    publishConfig: { access: 'public', provenance: true },
    engines: { node: expect.stringMatching(/^>=\d/) },
    files: expect.arrayContaining(['dist']),
  })
})

test('package, chart and image have one version, and one Node', () => {
  const chart = parse(textOf('charts/usher/Chart.yaml')) as { version: string; appVersion: string }
  expect([chart.version, chart.appVersion]).toEqual([manifest.version, manifest.version])
  expect(textOf('Dockerfile')).toContain(`ARG BASE=node:${manifest.devDependencies.node}-slim\n`)
})

test('the statement of a release names the digest of each file, the commit and the base', () => {
  const folder = mkdtempSync(join(tmpdir(), 'usher-release-'))
  try {
    writeFileSync(join(folder, 'usher-1.2.3.tgz'), 'a package')
    const base = `docker.io/library/node:24-slim@sha256:${'ab'.repeat(32)}`
    const said = [folder, '1.2.3', 'c0ffee', base, 'linux/amd64', 'linux/arm64']
    execFileSync(process.execPath, ['release/provenance.ts', ...said], { cwd: ROOT })
    const statement = JSON.parse(readFileSync(join(folder, 'provenance.intoto.json'), 'utf8')) as object
    expect(statement).toMatchObject({
      subject: [{ name: 'usher-1.2.3.tgz', digest: { sha256: expect.stringMatching(/^[0-9a-f]{64}$/) } }],
      predicate: {
        buildDefinition: {
          externalParameters: { version: '1.2.3', platforms: ['linux/amd64', 'linux/arm64'] },
          resolvedDependencies: expect.arrayContaining([
            { name: 'source', digest: { gitCommit: 'c0ffee' } },
            { uri: 'docker://docker.io/library/node:24-slim', digest: { sha256: 'ab'.repeat(32) } },
          ]),
        },
      },
    })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
