/** charts/usher/examples/try.yaml and the walk of docs/kubernetes/kind.md that installs it. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { ROOT } from '../support/repository.ts'
import { describeWith } from '../support/requirement.ts'
import { containers, pods } from './pods.ts'
import { CHART, complaints, manifests, named, render, tools, type Values } from './render.ts'

const text = readFileSync(join(CHART, 'examples', 'try.yaml'), 'utf8')
const page = readFileSync(join(ROOT, 'docs', 'kubernetes', 'kind.md'), 'utf8')
const joined = page.replaceAll('\\\n', ' ')

describeWith(tools('helm', 'kubeconform', 'schemas'), 'the release to look at', found => {
  const values = parse(text) as Values
  const out = render(found.helm, values)
  const all = manifests(out)

  test('says in its first lines, and the page says, that it is not for production', () => {
    expect(text.split('\n').slice(0, 2).join(' ')).toContain('NOT FOR PRODUCTION')
    expect(page).toMatch(/not(hing of it is)? for production/i)
  })

  test('is admitted by Kubernetes', () => {
    const schema = `${found.schemas}/{{ .ResourceKind }}{{ .KindSuffix }}.json`
    expect(complaints(found.kubeconform, ['-strict', '-schema-location', schema, '-'], out)).toBe('')
  })

  test('has a Postgres that keeps to the restricted standard, which the walk lets the cluster enforce', () => {
    expect(page).toContain('pod-security.kubernetes.io/enforce=restricted')
    for (const pod of pods(all)) {
      expect(pod.spec.securityContext, pod.of).toMatchObject({
        runAsNonRoot: true,
        seccompProfile: { type: 'RuntimeDefault' },
      })
      for (const { securityContext } of containers(pod))
        expect(securityContext, pod.of).toMatchObject({
          allowPrivilegeEscalation: false,
          capabilities: { drop: ['ALL'] },
        })
    }
    expect(pods(all).map(({ of }) => of)).toContain('Deployment try-postgres')
  })

  test('only the authority reaches that Postgres', () => {
    const { podSelector, ingress } = named(all, 'NetworkPolicy', 'try-postgres').spec as unknown as {
      podSelector: { matchLabels: object }
      ingress: { from: { podSelector: { matchLabels: object } }[] }[]
    }
    const labels = (of: string) => pods(all).find(pod => pod.of === of)!.labels
    expect(labels('Deployment try-postgres')).toMatchObject(podSelector.matchLabels)
    expect(ingress).toHaveLength(1)
    expect(ingress[0]!.from).toHaveLength(1)
    const { matchLabels } = ingress[0]!.from[0]!.podSelector
    expect(labels('Deployment usher-authority')).toMatchObject(matchLabels)
    expect(labels('Deployment usher-sidecar')).not.toMatchObject(matchLabels)
  })

  test('the walk makes each Secret that the pods want, with each key', () => {
    const made = new Map(
      [...joined.matchAll(/create secret generic ([\w-]+) ([^\n]*)/g)].map(([, name, rest]) => [
        name!,
        [...rest!.matchAll(/--from-(?:file|literal)=([\w.-]+)/g)].map(([, key]) => key!),
      ]),
    )
    const wanted = pods(all).flatMap(pod => [
      ...(pod.spec.volumes ?? []).flatMap(({ secret }) =>
        secret === undefined ? [] : [[secret.secretName, ...(secret.items ?? []).map(({ key }) => key)]],
      ),
      ...containers(pod).flatMap(({ env = [] }) =>
        env.flatMap(({ valueFrom }) =>
          valueFrom?.secretKeyRef === undefined
            ? []
            : [[valueFrom.secretKeyRef.name, valueFrom.secretKeyRef.key]],
        ),
      ),
    ])
    expect(wanted.length).toBeGreaterThan(5)
    for (const [name, ...keys] of wanted) {
      expect([...made.keys()]).toContain(name)
      expect(made.get(name!)).toEqual(expect.arrayContaining(keys))
    }
    expect([...made.keys()].filter(name => !wanted.some(([one]) => one === name))).toEqual([])
    expect(made.get('usher-try-certificate')).toEqual(
      expect.arrayContaining(['tls.crt', 'tls.key', 'ca.crt']),
    )
  })

  test('the certificate of the walk is for the host of the issuer and for the forwarded owner API', () => {
    const names = /subjectAltName=(\S+)/
      .exec(joined)![1]!
      .split(',')
      .map(name => name.replace(/^DNS:/, ''))
    const { issuer, ownerUrl } = values['authority'] as { issuer: string; ownerUrl: string }
    expect(names).toEqual([new URL(issuer).hostname, new URL(ownerUrl).hostname])
    expect(page).toContain(`UMA_OWNER_ISSUER=${issuer} UMA_OWNER_API=${ownerUrl}`)
    expect(new URL(issuer).hostname).toBe(
      `${named(all, 'Service', 'usher-authority').metadata.name}.usher.svc`,
    )
  })

  test('the walk builds the image, and names the database, that the values name', () => {
    const [container] = containers(pods(all).find(({ of }) => of === 'Deployment usher-authority')!)
    expect(page).toContain(`docker build -t ${container!.image} .`)
    expect(page).toContain(`kind load docker-image ${container!.image} `)
    expect(joined).toContain(`@${named(all, 'Service', 'try-postgres').metadata.name}.usher.svc:5432/usher`)
  })
})
