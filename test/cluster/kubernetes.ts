/**
 * Owns asking the cluster, by the commands that an operator uses: `kubectl` and `helm` of
 * test/cluster/programs.sh.
 */
import { execFile, spawn } from 'node:child_process'
import { promisify } from 'node:util'
import { stringify } from 'yaml'

const run = promisify(execFile)

/** What came of a command that may fail. */
export interface Ended {
  code: number
  out: string
  err: string
}

/** Runs a command and answers what it wrote; fails with its output if its status is not 0. */
export async function must(program: 'kubectl' | 'helm', args: string[], input?: string): Promise<string> {
  const ended = await tried(program, args, input)
  if (ended.code !== 0)
    throw new Error(`${program} ${args.join(' ')} ended with ${ended.code}:\n${ended.out}${ended.err}`)
  return ended.out
}

/** The same, if a failure is a possible answer. */
export async function tried(program: 'kubectl' | 'helm', args: string[], input = ''): Promise<Ended> {
  const child = spawn(program, args, { stdio: 'pipe' })
  const ended: Ended = { code: -1, out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => (ended.out += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (ended.err += text))
  // That it ended without having read all is told by its ending.
  child.stdin.on('error', () => undefined).end(input)
  ended.code = await new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', code => resolve(code ?? -1))
  })
  return ended
}

export const kubectl = (...args: string[]): Promise<string> => must('kubectl', args)
export const helm = (...args: string[]): Promise<string> => must('helm', args)

/** Makes or changes objects. */
export function apply(objects: object[]): Promise<string> {
  return must('kubectl', ['apply', '--server-side', '--force-conflicts', '-f', '-'], documents(objects))
}

/** Several objects as one YAML stream. */
export function documents(objects: object[]): string {
  return objects.map(object => stringify(object, { aliasDuplicateObjects: false })).join('---\n')
}

/** A Secret of texts. */
export function secret(namespace: string, name: string, stringData: Record<string, string>): object {
  return { apiVersion: 'v1', kind: 'Secret', metadata: { namespace, name }, stringData }
}

export interface Pod {
  metadata: { name: string; uid: string; deletionTimestamp?: string }
  spec: { containers: { securityContext?: Record<string, unknown> }[] }
  status: {
    podIP?: string
    conditions?: { type: string; status: string }[]
    containerStatuses?: {
      restartCount: number
      ready: boolean
      lastState?: { terminated?: { reason?: string; exitCode: number } }
    }[]
  }
}

/** The pods of a component of the release that are not ending. */
export async function podsOf(namespace: string, component: string): Promise<Pod[]> {
  const selector = `app.kubernetes.io/component=${component}`
  const list = JSON.parse(await kubectl('-n', namespace, 'get', 'pod', '-l', selector, '-o', 'json')) as {
    items: Pod[]
  }
  return list.items.filter(pod => pod.metadata.deletionTimestamp === undefined)
}

export const isReady = (pod: Pod): boolean =>
  pod.status.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false

/** Asks for a pod's eviction, as a drain of its node does. */
export function evict(namespace: string, pod: string): Promise<Ended> {
  const eviction = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name: pod, namespace } }
  const path = `/api/v1/namespaces/${namespace}/pods/${pod}/eviction`
  return tried('kubectl', ['create', '--raw', path, '-f', '-'], JSON.stringify(eviction))
}

/** Waits until a rollout is through. */
export async function rolledOut(namespace: string, deployment: string): Promise<void> {
  await kubectl('-n', namespace, 'rollout', 'status', `deployment/${deployment}`, '--timeout=150s')
}

/** All logs of a namespace's pods, for the reader of a failure. */
export async function logsOf(namespace: string): Promise<string> {
  const { stdout: names } = await run('kubectl', ['-n', namespace, 'get', 'pod', '-o', 'name'])
  const logs = names
    .split('\n')
    .filter(name => name !== '')
    .map(async name => {
      const { out, err } = await tried('kubectl', ['-n', namespace, 'logs', '--tail=15', name])
      return `--- ${namespace} ${name}\n${out}${err}`
    })
  return (await Promise.all(logs)).join('\n')
}
