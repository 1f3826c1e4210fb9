/**
 * Which calls a gateway asks about by the manifests of the chart, and what the chart says of those it does
 * not ask about.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { describeWith } from '../support/requirement.ts'
import { CHART, helm, manifests, named, over, rendered, tools, valueSet, type Values } from './render.ts'
import { overDefaults, refusalsOf } from './values-schema.ts'

const owner = (name: string) => ({
  owner: name,
  authority: 'https://as.example.com',
  client_id: `tools-${name}`,
  client_secret_file: `/etc/usher/client-secrets/${name}`,
  tools: [{ tool: 'portfolio_read', resource_id: `${name}/portfolio`, scopes: ['read'] }],
})
const ALICE_AND_BOB: Values = { config: { owners: [owner('alice'), owner('bob')] } }
/** The chart knows nothing of what is in it. */
const OWN_FILE: Values = { config: {}, existingConfig: { existingSecret: 'sidecar-file' } }

/** What is printed after an installation. Helm prints it only if it reaches a cluster: a copy shows it. */
function notesOf(binary: string, values: Values): string {
  const chart = mkdtempSync(join(tmpdir(), 'usher-notes-'))
  try {
    cpSync(CHART, chart, { recursive: true })
    const shown = 'notes: {{ include (print .Template.BasePath "/NOTES.txt") . | toJson }}\n'
    writeFileSync(join(chart, 'templates', 'notes.yaml'), shown)
    const only = ['--skip-schema-validation', '-s', 'templates/notes.yaml', '-f', '-']
    const text = execFileSync(binary, ['template', 'usher', chart, '--namespace', 'usher', ...only], {
      input: JSON.stringify(values),
      encoding: 'utf8',
      env: { HOME: chart },
    })
    const [{ notes }] = manifests(text) as unknown as [{ notes: string }]
    return notes.replaceAll(/\s+/g, ' ')
  } finally {
    rmSync(chart, { recursive: true })
  }
}

describeWith(tools('helm'), 'a gateway that others share', found => {
  const changed = (set: string, changes: Values) => over(valueSet(set), changes)
  const faultOf = (values: Values) => {
    const { ok, text } = helm(found.helm, values, ['template', 'usher', CHART, '--skip-schema-validation'])
    return ok ? '' : text
  }
  const checked = (values: Values) => {
    const { spec } = named(rendered(found.helm, values), 'AuthorizationPolicy', 'usher')
    const { rules } = spec as unknown as { rules: [{ to: [{ operation: Record<string, string[]> }] }] }
    return rules[0].to[0].operation
  }

  test('Istio asks about the hosts of the tools alone, at every port, and still not about the public documents', () => {
    const everywhere = checked(valueSet('istio'))
    expect(everywhere).not.toHaveProperty('hosts')
    expect(checked(changed('istio', { istio: { hosts: ['tools.example.com', 'a.example.com'] } }))).toEqual({
      hosts: ['tools.example.com', 'tools.example.com:*', 'a.example.com', 'a.example.com:*'],
      notPaths: everywhere['notPaths'],
    })
  })

  test('hosts that leave out the one of the sidecar are refused, where the chart knows it', () => {
    const hosts = { istio: { hosts: ['a.example.com'] } }
    expect(faultOf(changed('istio', hosts))).toContain('istio.hosts lacks tools.example.com')
    expect(faultOf(changed('istio', { ...hosts, sidecar: OWN_FILE }))).toBe('')
    const spelt = { public_url: 'https://Tools.example.com:8443' }
    const spelling = { istio: { hosts: ['tools.example.com'] }, sidecar: { config: spelt } }
    expect(faultOf(changed('istio', spelling))).toBe('')
  })

  test.each([['*'], ['*.example.com'], ['tools.example.com:443'], ['https://tools.example.com']])(
    'the host %s, which Istio would not match with every port, is refused',
    host => {
      const values = changed('istio', { istio: { hosts: [host] } })
      expect(refusalsOf(overDefaults(values))).toContain('/istio/hosts/0')
    },
  )

  test('what is printed says that Istio asks about every host, until hosts are named, and what every site shares', () => {
    const everywhere = notesOf(found.helm, valueSet('istio'))
    expect(everywhere).toContain('calls to other sites behind it are 404')
    const alone = notesOf(found.helm, changed('istio', { istio: { hosts: ['tools.example.com'] } }))
    expect(alone).not.toContain('calls to other sites')
    for (const notes of [everywhere, alone]) expect(notes).toContain('To every site behind the same pods')
    expect(notesOf(found.helm, valueSet('sidecar'))).not.toContain('EnvoyFilter')
  })

  test('a route of Envoy Gateway for an owner whom the sidecar does not have is refused, where the chart knows them', () => {
    const misspelt = { envoyGateway: { routes: [{ owner: 'alise', httpRoute: 'alice' }] } }
    const fault = faultOf(changed('envoy-gateway', misspelt))
    expect(fault).toContain('sidecar.config has no owner alise')
    expect(fault).toContain('Its owners: alice.')
    const expose = { documents: { gatewayApi: { enabled: false } } }
    expect(faultOf(changed('envoy-gateway', { ...misspelt, sidecar: OWN_FILE, expose }))).toBe('')
  })

  test('what is printed names the owners whom no route of Envoy Gateway is for, unless one is for all', () => {
    const printed = (routes: Values[]) =>
      notesOf(found.helm, changed('envoy-gateway', { sidecar: ALICE_AND_BOB, envoyGateway: { routes } }))
    const sentence = 'No route in `envoyGateway.routes` is for: '
    const alice = { owner: 'alice', httpRoute: 'alice' }
    expect(printed([alice])).toContain(`${sentence}bob. Calls on an HTTPRoute of theirs`)
    expect(printed([alice, { owner: 'bob', httpRoute: 'bob' }])).not.toContain(sentence)
    expect(printed([alice, { httpRoute: 'tools' }])).not.toContain(sentence)
  })
})
