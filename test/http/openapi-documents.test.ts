/** Contract, "Endpoints": every listener of every party describes what it serves; tools find no fault. */
import { createConfig, lintFromString, type Config } from '@redocly/openapi-core'
import { readFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { documents } from '../support/openapi-documents.ts'
import { typedProgram } from '../support/typed-client.ts'

interface Operation {
  operationId: string
  tags: string[]
  responses: Record<string, { content?: Record<string, { schema?: object; example?: unknown }> }>
  requestBody?: { content: Record<string, { schema: { $ref?: string }; example?: unknown }> }
}
interface Document {
  info: { version: string }
  tags: { name: string }[]
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, object> }
}

const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string }

/** Errors and warnings alike. The contract has paths that match two templates: `/owner/policies/preview`. */
let config: Config
beforeAll(async () => {
  config = await createConfig({
    extends: ['recommended-strict'],
    rules: {
      'no-ambiguous-paths': 'off',
      'operation-singular-tag': 'error',
      'operation-tag-defined': 'error',
      'tag-description': 'error',
      'no-invalid-media-type-examples': 'error',
      'no-invalid-parameter-examples': 'error',
      'no-invalid-schema-examples': 'error',
    },
  })
})

describe.each(Object.entries(documents()))('the document of %s', (_name, made) => {
  const document = made as unknown as Document
  const operations = Object.values(document.paths).flatMap(methods => Object.values(methods))

  it('gives a linter nothing to find', async () => {
    const found = await lintFromString({ source: JSON.stringify(document), config })
    expect(found.map(({ ruleId, message, location }) => [ruleId, message, location[0]?.pointer])).toEqual([])
  })

  it("has the product's version, and a chapter that says what it is about for each operation", () => {
    expect(document.info.version).toBe(version)
    for (const { operationId, tags } of operations)
      expect([operationId, tags.length]).toEqual([operationId, 1])
  })

  it('names the schema of each body and answer, and shows an example of it', () => {
    const nameless = operations.flatMap(({ operationId, requestBody, responses }) =>
      [requestBody, ...Object.values(responses)]
        .flatMap(one => Object.values(one?.content ?? {}))
        .filter(media => media.schema !== undefined && !isRefusal(media.schema))
        .filter(media => !('$ref' in media.schema!) || media.example === undefined)
        .map(() => operationId),
    )
    expect(nameless).toEqual([])
    // A member that no example is known of: name it in src/http/openapi/openapi-examples.ts.
    expect(JSON.stringify(document)).not.toContain('"…"')
  })

  it('says with which words each operation refuses', () => {
    for (const { operationId, responses } of operations) {
      const refused = Object.entries(responses).filter(([status]) => status.startsWith('4'))
      expect([operationId, refused.length > 0]).toEqual([operationId, true])
    }
  })
})

const isRefusal = (schema: object): boolean =>
  'allOf' in schema || ('$ref' in schema && schema.$ref === '#/components/schemas/Refusal')

it('a typed client of each compiles, and takes nothing that the document does not say', async () => {
  const calls = Object.keys(documents()).flatMap(name => [
    `void ${name}.GET('/health')`,
    '// @ts-expect-error -- nothing is served there',
    `void ${name}.GET('/nowhere')`,
  ])
  const { faults } = await typedProgram(documents(), [
    ...calls,
    "const { data, error } = await owner.POST('/owner/connections/revoke', { body: { handle: 'jkt:x' } })",
    'export const ended: number | undefined = data?.rpts_deactivated',
    'export const word: string | undefined = error?.error',
    '// @ts-expect-error -- a revocation names a handle',
    "void owner.POST('/owner/connections/revoke', { body: {} })",
  ])
  expect(faults).toEqual([])
})
