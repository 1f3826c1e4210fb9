/**
 * The command by which the image runs usher, made from a checkout: for what must be measured as it is
 * deployed.
 */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

/**
 * Bundles the checkout and answers the Dockerfile's ENV and ENTRYPOINT with the paths of this machine; a
 * subcommand follows them.
 */
export async function bundledCommand(tree: string): Promise<string[]> {
  await promisify(execFile)('npm', ['run', '--silent', 'bundle'], { cwd: tree })
  const image = (await readFile(join(tree, 'Dockerfile'), 'utf8')).split(/^FROM /m).at(-1)!
  const environment = [...image.matchAll(/^ENV (.+)$/gm)].flatMap(([, pairs]) => pairs!.split(' '))
  const entry = /^ENTRYPOINT (\[.*\])$/m.exec(image)?.[1]
  if (entry === undefined) throw new Error('The Dockerfile has no ENTRYPOINT.')
  const [node, ...rest] = JSON.parse(entry) as string[]
  if (node !== 'node') throw new Error(`The image runs ${node}, not Node.`)
  return [
    '/usr/bin/env',
    ...environment,
    process.execPath,
    ...rest.map(part => part.replace(/^\/app\//, `${tree}/`)),
  ]
}
