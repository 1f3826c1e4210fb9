/**
 * What a machine can check of the promise that nothing which ends a grant returns too early: each function
 * that writes what a grant hangs on says `endsLeases`, or is named here with the reason. ADR 0021.
 */
import { expect, it } from 'vitest'
import { repositoryFiles } from './support/repository.ts'

/** Tables that the statement of an introspection reads, but for `lease_holders`. */
const READ = 'resource_servers|connections|tiers|tier_resources|memberships|operators|grants'
const WRITES = new RegExp(
  String.raw`\b(?:UPDATE|DELETE FROM|INSERT INTO) (?:${READ})\b` +
    String.raw`|\.(?:updateTable|deleteFrom|insertInto)\('(?:${READ})'\)`,
)

/** Functions that end and narrow nothing, by file. */
const HARMLESS: Record<string, string> = {
  'connections/blocked-agents.ts recordWaiting': 'a connection that was never in force',
  'connections/blocked-agents.ts unblockAgent': 'gives back',
  'connections/connections.ts admitConnection': 'lets in, and changes how far what is asked later reaches',
  'connections/connections.ts labelConnection': 'a name',
  'connections/connections.ts lockOperator': 'a new operator, of whom nothing is known',
  'connections/connections.ts unblockOperator': 'gives back',
  'membership/emergencies.ts countEmergencyNotice': 'a count',
  'grants/consume.ts': 'spends what is for a single use, which is never leased',
  'grants/issue.ts': 'a new grant',
  'ledger/last-access.ts RECORD': 'a time',
  'membership/membership.ts addClampedFields': 'what was cut; the cut itself is a tier that was saved',
  'membership/membership.ts confirmView': 'a time',
  'policies/operator-values.ts endFormerProof': 'a proof of who asks, and no grant',
  'connections/operators.ts nameOperator': 'a name',
  'connections/operators.ts claimOperator': 'how what is asked later is weighed',
  'connections/operators.ts disclaimOperator': 'how what is asked later is weighed',
  'membership/organization-acts.ts restoreAgent': 'gives back',
  'membership/organization-acts.ts unblockAgents': 'gives back',
  'negotiations/pending.ts reopenCollected': 'spends what is for a single use, which is never leased',
  'registry/registrations.ts registerResourceServer': 'one that is not active waits',
  'registry/registrations.ts endLapsed': 'what waited, and so had no PAT',
  'registry/resources.ts insertResourceServer': 'a new one',
  'registry/resources.ts touchPatIssued': 'a time',
  'sweep.ts': 'grants that expired long ago',
  'policies/allowance-returns.ts RETURN': 'what expired, and is for a single use, which is never leased',
  'policies/tiers.ts insertTier': 'a new tier',
  'policies/tiers.ts governResources': 'resources that no tier governed',
}

interface Part {
  file: string
  name: string
  text: string
}

/** The top-level statements of the files in src/storage/authority. */
function parts(): Part[] {
  const folder = 'src/storage/authority/'
  return repositoryFiles()
    .filter(({ path }) => path.startsWith(folder))
    .flatMap(({ path, text }) =>
      text.split(/^(?=(?:export )?(?:async )?(?:function|const) )/m).map(part => ({
        file: path.slice(folder.length),
        name: /^(?:export )?(?:async )?(?:function|const) (\w+)/.exec(part)?.[1] ?? '',
        text: part.replaceAll(/^\s*(?:\*|\/\*|\/\/).*$/gm, ''),
      })),
    )
}

it('whatever writes what a grant hangs on says that it ends, or why it ends nothing', () => {
  const silent = parts().filter(({ text }) => WRITES.test(text) && !text.includes('endsLeases('))
  const unexplained = silent.filter(
    ({ file, name }) => !(`${file} ${name}` in HARMLESS) && !(file in HARMLESS),
  )
  expect(unexplained.map(({ file, name }) => `${file} ${name}`)).toEqual([])
})

it('no reason is given for what is gone', () => {
  const silent = parts().filter(({ text }) => WRITES.test(text) && !text.includes('endsLeases('))
  const named = new Set(silent.flatMap(({ file, name }) => [file, `${file} ${name}`]))
  expect(Object.keys(HARMLESS).filter(one => !named.has(one))).toEqual([])
})
