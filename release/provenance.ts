/**
 * Owns the statement of what a release was built from: in-toto's form, SLSA's predicate, unsigned until it is
 * published. contract, "What the service does": one package and one image. Run by release/main.sh with the
 * folder of what was built.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const sha256 = (file: string): string => createHash('sha256').update(readFileSync(file)).digest('hex')

const [folder, version, revision, named, ...platforms] = process.argv.slice(2)
if (folder === undefined || version === undefined || revision === undefined || named === undefined)
  throw new Error('usage: provenance.ts <folder> <version> <commit> <base image> <platform>...')
const [base, baseDigest] = named.split('@sha256:')
const statement = {
  _type: 'https://in-toto.io/Statement/v1',
  subject: readdirSync(folder).map(name => ({ name, digest: { sha256: sha256(join(folder, name)) } })),
  predicateType: 'https://slsa.dev/provenance/v1',
  predicate: {
    buildDefinition: {
      buildType: 'urn:usher:make-release:1',
      externalParameters: { version, platforms },
      resolvedDependencies: [
        { name: 'source', digest: { gitCommit: revision } },
        { name: 'package-lock.json', digest: { sha256: sha256('package-lock.json') } },
        { uri: `docker://${base}`, ...(baseDigest !== undefined && { digest: { sha256: baseDigest } }) },
      ],
    },
    runDetails: {
      builder: { id: 'urn:usher:release/main.sh', version: { node: process.version } },
      metadata: { finishedOn: new Date().toISOString() },
    },
  },
}
writeFileSync(join(folder, 'provenance.intoto.json'), `${JSON.stringify(statement, null, 2)}\n`)
